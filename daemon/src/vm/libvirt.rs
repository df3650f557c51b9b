//! What libvirt wrote down about a running VM: `/run/libvirt/qemu/NAME.xml`, kept current as vCPUs come and go.

use super::told::Told;
use roxmltree::{Document, Node};
use std::io::ErrorKind;
use std::path::Path;

/// Where libvirt's system daemon keeps the status of its QEMU domains.
pub(super) const FOLDER: &str = "/run/libvirt/qemu";

/// Reads the status of domain `name`.
pub(super) fn read(folder: &Path, name: &str) -> Result<Told, String> {
    let path = folder.join(format!("{name}.xml"));
    let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!(
            "there is no {}: libvirt's system daemon runs no VM '{name}' now; expected a name that 'virsh list' shows; \
             start it with: virsh start {name}",
            path.display()
        ),
        ErrorKind::PermissionDenied => format!("may not read {}: run giusto as root", path.display()),
        _ => format!("cannot read {}: {error}", path.display()),
    })?;
    parse(&text).map_err(|found| {
        format!(
            "{} {found}; expected what libvirt's QEMU driver writes: <domstatus pid='1234'> with <vcpus><vcpu id='0' \
             pid='1235'/></vcpus>; adopt the VM by a QMP socket of its own instead (docs/vms.md)",
            path.display()
        )
    })
}

fn parse(text: &str) -> Result<Told, String> {
    let document = Document::parse(text).map_err(|error| format!("is not XML ({error})"))?;
    let status = document.root_element();
    if !status.has_tag_name("domstatus") {
        return Err(format!("holds <{}>", status.tag_name().name()));
    }
    let number = |node: Node<'_, '_>, key: &str| {
        let text = node.attribute(key).ok_or_else(|| format!("has a <{}> without {key}", node.tag_name().name()))?;
        text.parse::<u32>().map_err(|_| format!("has {key}='{text}' in <{}>", node.tag_name().name()))
    };
    // Not below <domain>, whose <vcpus> describes them.
    let vcpus = status.children().filter(|node| node.has_tag_name("vcpus")).flat_map(|vcpus| vcpus.children());
    let vcpus = vcpus.filter(|node| node.has_tag_name("vcpu"));
    let vcpus = vcpus.map(|vcpu| Ok((number(vcpu, "id")?, number(vcpu, "pid")?)));
    Ok(Told { pid: number(status, "pid")?, vcpus: vcpus.collect::<Result<_, String>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_file_tells_process_and_threads() {
        // Written by libvirt 9.0 for a VM with a hot-plugged third vCPU; most of its <qemuCaps> are left out.
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
        let told = read(folder, "libvirt-status").unwrap();
        assert_eq!(told, Told { pid: 17853, vcpus: vec![(0, 17857), (1, 17858), (2, 17868)] });
    }

    #[test]
    fn what_is_no_status_file_says_what_was_found_and_expected() {
        let folder = tempfile::tempdir().unwrap();
        for (text, found) in [
            ("", "is not XML"),
            ("<domstatus state='running' pid='7'><vcpus></domstatus>", "is not XML"),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><domstatus pid='7'/>", "is not XML"),
            ("<domain type='kvm'/>", "holds <domain>"),
            ("<domstatus state='running'/>", "a <domstatus> without pid"),
            ("<domstatus pid='-1'/>", "pid='-1'"),
            ("<domstatus pid='7'><vcpus><vcpu pid='8'/></vcpus></domstatus>", "a <vcpu> without id"),
        ] {
            std::fs::write(folder.path().join("vm.xml"), text).unwrap();
            let error = read(folder.path(), "vm").unwrap_err();
            assert!(error.contains(found) && error.contains("vm.xml") && error.contains("expected"), "{error}");
        }
        let error = read(folder.path(), "gone").unwrap_err();
        assert!(error.contains("gone.xml") && error.contains("virsh start gone"), "{error}");
    }
}
