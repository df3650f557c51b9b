//! Compiles the policy core.

fn main() {
    for source in ["policy.h", "policy.c", "core", "kinds"] {
        println!("cargo:rerun-if-changed={source}");
    }
    cc::Build::new()
        .file("policy.c")
        .flag("-std=c11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("giusto_policy");
}
