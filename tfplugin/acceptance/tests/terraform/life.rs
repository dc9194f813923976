//! The ordinary life of an object.

use std::fs;

use crate::files::Files;

#[test]
#[ignore = "needs terraform 1.11"]
fn an_object_is_made_changed_replaced_and_removed() {
    let tf = Files::new();
    tf.object("name = \"a\"\ncontent = \"v1\"\nsecret = \"hunter2\"");
    let planned = tf.plan();
    planned
        .says("id       = (known after apply)")
        .says("enabled  = true")
        .lacks("hunter2");
    assert_eq!(planned.code, 2);
    tf.apply().ok().says("1 added");
    assert_eq!(tf.plan().code, 0, "no change");

    tf.object("name = \"a\"\ncontent = \"v2\"\nenabled = false\nsecret = \"hunter2\"");
    let changed = tf.apply();
    changed
        .ok()
        .says("0 added, 1 changed")
        .says("~ revision = 1 -> (known after apply)")
        .lacks("~ id");
    tf.object("name = \"a\"\ncontent = \"v2\"\nsecret = \"hunter2\"");
    tf.apply().ok().says("~ enabled  = false -> true");

    tf.object("name = \"a\"\ncontent = \"v2\"\nrun_id = \"r1\"");
    tf.apply()
        .ok()
        .says("# forces replacement")
        .says("1 added, 0 changed, 1 destroyed");
    tf.run(&["destroy", "-auto-approve"])
        .ok()
        .says("1 destroyed");
    assert!(tf.stored().is_empty());
}

#[test]
#[ignore = "needs terraform 1.11"]
fn what_was_changed_or_removed_outside_is_seen() {
    let tf = Files::new();
    tf.object("name = \"a\"\ncontent = \"v1\"");
    tf.apply().ok();
    let file = tf.stored().remove(0);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("v1", "drifted")).unwrap();
    tf.plan().says(r#"~ content  = "drifted" -> "v1""#);
    fs::remove_file(&file).unwrap();
    tf.plan().says("1 to add, 0 to change, 0 to destroy");
}

#[test]
#[ignore = "needs terraform 1.11"]
fn an_object_is_imported_by_command_and_by_block() {
    let tf = Files::new();
    let body = "name = \"a\"\ncontent = \"v1\"\ntimeouts = { create = \"90s\" }";
    tf.object(body);
    tf.apply().ok();
    let id = tf.state()["values"]["id"].as_str().unwrap().to_owned();
    tf.run(&["state", "rm", "files_object.o"]).ok();
    tf.run(&["import", "files_object.o", &id]).ok();
    assert_eq!(tf.plan().code, 0, "an import and its plan: {:?}", tf.plan());
    tf.run(&["state", "rm", "files_object.o"]).ok();
    tf.config(&format!(
        "resource \"files_object\" \"o\" {{\n{body}\n}}\nimport {{\n to = files_object.o\n id = {id:?}\n}}"
    ));
    tf.apply().ok().says("1 imported, 0 added, 0 changed");
    tf.run(&["state", "rm", "files_object.o"]).ok();
    tf.run(&["import", "files_object.o", "nope"])
        .failed()
        .says("There is no object nope.");
}

#[test]
#[ignore = "needs terraform 1.11"]
fn the_new_one_may_come_before_the_old_one_goes_and_many_come_at_once() {
    let tf = Files::new();
    let first = "lifecycle { create_before_destroy = true }";
    tf.object(&format!("name = \"a\"\nrun_id = \"1\"\n{first}"));
    tf.apply().ok();
    tf.object(&format!("name = \"b\"\nrun_id = \"2\"\n{first}"));
    tf.apply()
        .ok()
        .says("+/- resource")
        .says("1 added, 0 changed, 1 destroyed");
    assert_eq!(tf.stored().len(), 1);
    tf.object("count = 40\nname = \"p${count.index}\"\ncontent = \"WARN\"");
    let many = tf.run(&["apply", "-auto-approve", "-parallelism=40"]);
    many.ok().says("40 added");
    assert_eq!(tf.stored().len(), 40);
    tf.run(&["destroy", "-auto-approve", "-parallelism=40"])
        .ok();
}

#[test]
#[ignore = "needs terraform 1.11"]
fn it_installs_from_a_mirror_and_its_schema_is_read() {
    let tf = Files::new();
    let target = if cfg!(target_arch = "aarch64") {
        "linux_arm64"
    } else {
        "linux_amd64"
    };
    let place = tf.path(&format!(
        "mirror/registry.terraform.io/test/files/0.1.0/{target}"
    ));
    fs::create_dir_all(&place).unwrap();
    let binary = env!("CARGO_BIN_EXE_terraform-provider-files");
    fs::copy(binary, place.join("terraform-provider-files_v0.1.0")).unwrap();
    let mirror = format!(
        "provider_installation {{\n filesystem_mirror {{\n path = {:?}\n }}\n}}\n",
        tf.path("mirror")
    );
    fs::write(tf.path("cli.tfrc"), mirror).unwrap();
    tf.object("name = \"a\"");
    tf.run(&["init"]).ok().says("Installed test/files v0.1.0");
    tf.apply().ok();
    let schema = tf.run(&["providers", "schema", "-json"]);
    schema
        .ok()
        .says("\"files_object\"")
        .says("\"write_only\":true")
        .says("\"deprecated\":true");
}
