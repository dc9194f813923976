//! Forgetting builds, and removing what nobody refers to any more.

use std::collections::BTreeSet;

use sless_core::{BuildId, Digest, FunctionId, Receipt, Result};

use super::{
    Inner,
    record::{self, image_tag},
};
use crate::registry::Reference;

impl Inner {
    pub(super) async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let known: Vec<BuildId> = {
            let builds = self.builds();
            let of_function = builds.get(&function.uid).into_iter().flatten();
            of_function
                .map(|(id, _)| id.clone())
                .filter(|id| !keep.contains(id))
                .collect()
        };
        for id in known {
            self.cancel(&id).await?;
            self.forget(&id);
        }
        self.maker
            .clear(&self.site, function, keep, &mut receipt)
            .await?;
        let at = self.site.of(function);
        let (prefix, kept): (_, BTreeSet<String>) = (
            record::prefix(&function.uid),
            keep.iter().map(record::tag).collect(),
        );
        let (mut dropped, mut used) = (Vec::new(), BTreeSet::new());
        let (mut named, mut recorded, mut unread) = (Vec::new(), BTreeSet::new(), false);
        for tag in self.site.registry.tags(&at).await? {
            let tagged = Reference {
                version: tag.clone(),
                ..at.clone()
            };
            if record::is_image_but(&tag, keep) {
                named.push(tagged);
                continue;
            }
            if !record::is_record(&tag) {
                continue;
            }
            let found = record::read(&self.site.registry, &tagged).await?;
            let Some((manifest, record, _)) = found else {
                unread = true;
                continue;
            };
            if tag.starts_with(&prefix) && !kept.contains(&tag) {
                dropped.push((tag, manifest, record.image()));
            } else {
                used.extend(record.image());
                recorded.insert(tag);
            }
        }
        // Images first: after a crash in between, their records lead to what is left.
        let images: BTreeSet<Digest> = dropped.iter().filter_map(|(_, _, image)| *image).collect();
        for image in images.difference(&used) {
            let name = image_tag(*image);
            self.site
                .delete("image", &name, &at.at(*image), &mut receipt)
                .await?;
        }
        for (tag, manifest, _) in &dropped {
            self.site
                .delete("build", tag, &at.at(*manifest), &mut receipt)
                .await?;
        }
        // Where a kept build has no record yet, an image without one may be its own; and what cannot be read
        // may lead to one.
        if !unread && kept.is_subset(&recorded) {
            self.drop_unused(&named, &used, &mut receipt).await?;
        }
        Ok(receipt)
    }

    /// Removes images that no record leads to: a crash came between the image and its record, and nobody
    /// asked for that build again.
    async fn drop_unused(
        &self,
        named: &[Reference],
        used: &BTreeSet<Digest>,
        receipt: &mut Receipt,
    ) -> Result<()> {
        let known: BTreeSet<String> = used.iter().map(|image| image_tag(*image)).collect();
        for tagged in named
            .iter()
            .filter(|tagged| !known.contains(&tagged.version))
        {
            let Some((_, bytes)) = self.site.registry.manifest(tagged).await? else {
                continue;
            };
            let image = Digest::of(&bytes);
            if !used.contains(&image) {
                self.site
                    .delete("image", &tagged.version, &tagged.at(image), receipt)
                    .await?;
            }
        }
        Ok(())
    }
}
