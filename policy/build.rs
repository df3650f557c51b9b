//! Compiles the policy core.

fn main() {
    println!("cargo:rerun-if-changed=policy.h");
    println!("cargo:rerun-if-changed=policy.c");
    cc::Build::new()
        .file("policy.c")
        .flag("-std=c11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .compile("giusto_policy");
}
