//! Which machine this is.

use giusto_model::ObservedHost;

/// This machine; what cannot be told is `unknown`.
pub fn this_host() -> ObservedHost {
    let said = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".into());
    let uname = rustix::system::uname();
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| processor(&text));
    ObservedHost {
        name: said(Some(uname.nodename().to_string_lossy().into_owned())),
        kernel: said(Some(uname.release().to_string_lossy().into_owned())),
        cpu: said(cpu),
    }
}

/// The first `model name` (x86) or `CPU part` (ARM).
fn processor(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    field("model name").or_else(|| Some(format!("{} {}", field("CPU implementer")?, field("CPU part")?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_as_the_kernel_names_it() {
        let x86 = "processor\t: 0\nvendor_id\t: X\nmodel name\t: Some CPU @ 2 GHz\nflags\t: a\n";
        assert_eq!(processor(x86).as_deref(), Some("Some CPU @ 2 GHz"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(processor(arm).as_deref(), Some("0x41 0xd0c"));
        assert_eq!(processor("processor: 0\n"), None);
        assert!(!this_host().kernel.is_empty());
    }
}
