//! `watch`.

use crate::support::{Running, World, until};

#[test]
fn a_change_is_deployed_and_what_is_wrong_is_waited_out() {
    let world = World::new();
    let write = |handler: &str| world.write(&[("f/handler.py", handler)]);
    write("def handle(event): return 1\n");
    let watch = Running::start(world.command(&["watch", "f"]));
    let seen = || format!("{} {}", watch.out(), watch.err());
    until("the first version", || watch.out().ends_with("/f\n"), seen);
    let answer = || world.run(&["invoke", "f"]).out;
    assert_eq!(answer(), "1");
    write("def handle(event): return 2\n");
    until("the second version", || answer() == "2", seen);
    write("def handle(event:\n");
    watch.says("f cannot run");
    watch.says("waiting for a change");
    assert_eq!(answer(), "2", "the version before serves on");
    world.write(&[(
        "f/sless.toml",
        "name = 'f'\nruntime = 'python3.11'\nwhat = 1\n",
    )]);
    watch.says("sless.toml:3:1");
    world.write(&[
        ("f/sless.toml", "name = 'f'\nruntime = 'python3.11'\n"),
        ("f/handler.py", "def handle(event): return 3\n"),
    ]);
    until("the third version", || answer() == "3", seen);
    watch.signal("INT");
    let done = watch.ended();
    assert_eq!(done.status, 130, "{done:#?}");
    assert_eq!(
        done.out.lines().count(),
        1,
        "the URL is printed once: {done:#?}"
    );
    assert_eq!(answer(), "3", "what was deployed stays");
}
