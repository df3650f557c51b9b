// Reads parts of VirtualMachines as KubeVirt does: no key that its types do not have. Prints what each says of processors, in
// JSON.
//
//	kubevirt FILE...
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The first place at which kept lacks what was written.
func lost(written, kept any, place string) string {
	all, isMap := written.(map[string]any)
	if !isMap {
		if fmt.Sprint(written) != fmt.Sprint(kept) {
			return place
		}
		return ""
	}
	have, _ := kept.(map[string]any)
	for key, value := range all {
		other, there := have[key]
		if !there {
			return place + "." + key
		}
		if found := lost(value, other, place+"."+key); found != "" {
			return found
		}
	}
	return ""
}

func read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var machine kubevirt.VirtualMachine
	if err := yaml.UnmarshalStrict(text, &machine); err != nil {
		return err
	}
	// Some of KubeVirt's types read themselves and pass over what they do not know: what they have not kept, they do not
	// have.
	var written, kept any
	again, err := json.Marshal(machine)
	if err != nil {
		return err
	}
	if err := errors.Join(yaml.Unmarshal(text, &written), json.Unmarshal(again, &kept)); err != nil {
		return err
	}
	if lost := lost(written, kept, ""); lost != "" {
		return fmt.Errorf("KubeVirt has no %s", lost)
	}
	if machine.APIVersion != kubevirt.SchemeGroupVersion.String() || machine.Kind != "VirtualMachine" {
		return fmt.Errorf("it is %s %s", machine.APIVersion, machine.Kind)
	}
	cpu := machine.Spec.Template.Spec.Domain.CPU
	// What KubeVirt's own admission asks of a realtime machine.
	memory := machine.Spec.Template.Spec.Domain.Memory
	if cpu.Realtime != nil && (!cpu.DedicatedCPUPlacement || cpu.NUMA == nil || cpu.NUMA.GuestMappingPassthrough == nil) {
		return fmt.Errorf("realtime goes with dedicatedCpuPlacement and numa.guestMappingPassthrough")
	}
	if cpu.NUMA != nil && (memory == nil || memory.Hugepages == nil) {
		return fmt.Errorf("numa.guestMappingPassthrough goes with hugepages")
	}
	out, err := json.Marshal(map[string]any{"name": machine.Name, "cpu": cpu})
	fmt.Println(string(out))
	return err
}

func main() {
	for _, path := range os.Args[1:] {
		if err := read(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
	}
}
