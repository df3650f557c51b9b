//! Compiles the manager's watch (bpf/watch.bpf.c) for the kernel.

#[path = "../policy/bpf_build.rs"]
mod bpf_build;

fn main() {
    bpf_build::compile("watch", &["bpf/watch.h"], &[]);
}
