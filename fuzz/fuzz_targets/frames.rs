#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sless_fuzz_targets::run("frames", data));
