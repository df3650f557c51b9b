//! Compiles what looks at requests, at wake-ups and at who has which core in the kernel (bpf/).

#[path = "../policy/bpf_build.rs"]
mod bpf_build;

fn main() {
    let headers = ["connection", "fast", "feed", "histogram", "jobs", "parse", "requests"];
    let headers = headers.map(|name| format!("bpf/{name}.h"));
    bpf_build::compile("requests", &headers.each_ref().map(String::as_str), &[]);
    bpf_build::compile("switches", &[], &[]);
    bpf_build::compile("wakeups", &["bpf/histogram.h", "bpf/jobs.h", "bpf/wakeups.h"], &[]);
}
