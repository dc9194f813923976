//! The pages of the Terraform registry.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tfplugin::docs::{Extras, Subject, page};

use crate::{data::What, function, job, provider, trigger};

const IMPORT_FUNCTION: &str = "\
By name:

```shell
terraform import sless_function.hello hello
```

What only Terraform knows, such as `source_dir`, is taken from the configuration and is no difference by itself.
All environment variables are taken into `env`. Where some belong to `env_sensitive` or `env_wo`, their names
are given:

```shell
terraform import sless_function.hello 'hello?env_sensitive=TOKEN,KEY&env_wo=PASSWORD&env_wo_version=1'
```";

const IMPORT_TRIGGER: &str =
    "By name:\n\n```shell\nterraform import sless_trigger.nightly nightly\n```";

const IMPORT_JOB: &str = "\
By name. Nothing runs by being imported.\n\n```shell\nterraform import sless_job.migrate migrate\n```";

/// All pages, by their path below `docs`.
pub fn pages() -> Vec<(PathBuf, String)> {
    let mut pages = vec![(
        PathBuf::from("index.md"),
        page(
            Subject::Provider,
            "sless",
            "sless",
            &provider::schema(),
            Extras::example(include_str!("../examples/provider/provider.tf")),
        ),
    )];
    let resources = [
        (
            "function",
            function::schema(),
            Extras::example(include_str!(
                "../examples/resources/sless_function/resource.tf"
            ))
            .with_import(IMPORT_FUNCTION),
        ),
        (
            "trigger",
            trigger::schema(),
            Extras::example(include_str!(
                "../examples/resources/sless_trigger/resource.tf"
            ))
            .with_import(IMPORT_TRIGGER),
        ),
        (
            "job",
            job::schema(),
            Extras::example(include_str!("../examples/resources/sless_job/resource.tf"))
                .with_import(IMPORT_JOB),
        ),
    ];
    for (name, schema, extras) in resources {
        let text = page(
            Subject::Resource,
            "sless",
            &format!("sless_{name}"),
            &schema,
            extras,
        );
        pages.push((Path::new("resources").join(format!("{name}.md")), text));
    }
    for what in What::ALL {
        let name = what.type_name();
        let example = match what {
            What::Function => {
                include_str!("../examples/data-sources/sless_function/data-source.tf")
            }
            What::Trigger => include_str!("../examples/data-sources/sless_trigger/data-source.tf"),
            What::Job => include_str!("../examples/data-sources/sless_job/data-source.tf"),
            What::Namespace => {
                include_str!("../examples/data-sources/sless_namespace/data-source.tf")
            }
        };
        let text = page(
            Subject::DataSource,
            "sless",
            name,
            &what.schema(),
            Extras::example(example),
        );
        let file = name.trim_start_matches("sless_");
        pages.push((Path::new("data-sources").join(format!("{file}.md")), text));
    }
    pages
}

/// Writes all pages below a folder.
///
/// # Errors
/// Where a file cannot be written.
pub fn write(folder: &Path) -> io::Result<()> {
    for (path, text) in pages() {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}
