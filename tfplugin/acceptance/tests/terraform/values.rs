//! Values on their way between Terraform and a provider.

use std::fs;

use crate::files::Files;

#[test]
#[ignore = "needs terraform 1.11"]
fn what_comes_later_is_unknown_in_a_plan_and_known_in_an_apply() {
    let tf = Files::new();
    tf.config(
        "resource \"terraform_data\" \"t\" { input = \"abc\" }\n\
         resource \"files_object\" \"f\" {\n name = \"f\"\n content = \"pre-${terraform_data.t.id}\"\n}\n\
         resource \"files_object\" \"g\" {\n name = \"g\"\n content = terraform_data.t.output\n \
         run_id = files_object.f.id\n}\n\
         data \"files_object\" \"d\" { id = files_object.f.id }\n\
         output \"o\" { value = data.files_object.d.content }\n",
    );
    tf.plan()
        .says("content  = (known after apply)")
        .says("will be read during apply");
    tf.apply().ok().says("o = \"pre-");
    assert_eq!(tf.plan().code, 0);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn what_is_wrong_is_shown_at_its_line() {
    let tf = Files::new();
    tf.object("name = \"\"");
    tf.run(&["validate"])
        .failed()
        .says("Invalid value for `name`")
        .says("name = \"\"");
    tf.object("name = \"a\"\ntimeouts = { create = \"2x\" }");
    tf.run(&["validate"])
        .failed()
        .says("Invalid value for `timeouts.create`")
        .says("`2x` is not a duration");
    tf.object("name = \"a\"\nold = \"x\"");
    tf.run(&["validate"])
        .ok()
        .says("Warning: Attribute is deprecated")
        .says("Use `content`.");
}

#[test]
#[ignore = "needs terraform 1.11"]
fn secrets_stay_where_they_belong() {
    let mut tf = Files::new();
    tf.set("TF_LOG", "TRACE");
    let path = tf.path("log");
    tf.set("TF_LOG_PATH", path.to_str().unwrap());
    tf.object("name = \"a\"\nsecret = \"hunter2\"\nsecret_wo = \"correct-horse\"");
    tf.apply().ok().lacks("hunter2").lacks("correct-horse");
    let state = fs::read_to_string(tf.path("terraform.tfstate")).unwrap();
    assert!(state.contains("hunter2") && !state.contains("correct-horse"));
    let log = fs::read_to_string(tf.path("log")).unwrap();
    let ours: Vec<_> = log
        .lines()
        .filter(|line| line.contains("provider.files"))
        .collect();
    assert!(
        ours.iter().any(|line| line.contains("created")),
        "{ours:#?}"
    );
    assert!(
        !ours
            .iter()
            .any(|line| line.contains("hunter2") || line.contains("correct-horse"))
    );
    assert_eq!(tf.plan().code, 0);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn numbers_are_exact_and_contents_may_be_large() {
    let tf = Files::new();
    for number in [
        "0.1",
        "1e300",
        "12345678901234567890123456789",
        "-0.000000000000000000000001",
        "0.5",
    ] {
        tf.object(&format!("name = \"a\"\nweight = {number}"));
        tf.apply().ok();
        assert_eq!(tf.plan().code, 0, "{number}");
    }
    fs::write(tf.path("big.txt"), "x".repeat(6_000_000)).unwrap();
    tf.object("name = \"a\"\nweight = 0.5\ncontent = file(\"big.txt\")");
    tf.apply().ok();
    assert_eq!(
        tf.state()["values"]["content"].as_str().unwrap().len(),
        6_000_000
    );
}
