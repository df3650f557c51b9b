//! Compiles the packet bucket and what sorts arrivals (bpf/) for the kernel.

#[path = "../policy/bpf_build.rs"]
mod bpf_build;

fn main() {
    for name in ["bucket", "uplink"] {
        bpf_build::compile(name, &["../policy/bucket.h"], &["../policy"]);
    }
}
