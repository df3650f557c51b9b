// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"giusto.dev/messaging/wire"
)

// On a full disk a request for something new is refused with the reason, and leases go on; with room again it is done.
func TestOnAFullDisk(t *testing.T) {
	t.Parallel() // it waits, most of the time
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=64k"); err != nil {
		// Not root, or in a container without mounts; filling the machine's own disk would be no test.
		t.Skip("a small file system cannot be mounted here:", err)
	}
	defer syscall.Unmount(data, syscall.MNT_DETACH)
	d := start(t, "lease: 3s\nsilent: 2s\nstore: {file: "+data+"/state}")
	defer d.Stop()
	settled(t, "it leads", func() bool { return leads(d.Addr()) })
	if status, text := call(t, "PUT", d.Addr()+"/topics/alarms", alarms); status != 200 {
		t.Fatal(status, text)
	}
	said := wire.Report{Broker: "a", Incarnation: "1", V2: "a:1", Wait: 200 * time.Millisecond}
	var last wire.Orders
	follow := func() (o wire.Orders) {
		o, err := report(http.DefaultClient, d.Addr(), said)
		if err != nil {
			t.Error(err)
		}
		said.Epoch, said.Seen = o.Epoch, o.Version
		return o
	}
	settled(t, "it has its share", func() bool {
		call(t, "GET", d.Addr()+"/assign?topic=alarms&publisher=p&at=a", "")
		last = follow()
		return last.Topics[0].Rate > 0
	})
	filler := filepath.Join(data, "filler")
	if err := os.WriteFile(filler, make([]byte, 64<<10), 0o600); err == nil {
		t.Fatal("it is not full")
	}
	if status, text := call(t, "PUT", d.Addr()+"/topics/other", alarms); status != 503 || !strings.Contains(text, "no space left on device. Make room") {
		t.Error(status, text)
	}
	for began := time.Now(); time.Since(began) < 4*time.Second; {
		if now := follow(); !reflect.DeepEqual(now, last) {
			t.Fatalf("after %v: %+v, not %+v", time.Since(began), now, last)
		}
	}
	os.Remove(filler)
	settled(t, "what was asked for is done", func() bool {
		status, text := call(t, "GET", d.Addr()+"/topics", "")
		return status == 200 && strings.Contains(text, `"other"`) && len(follow().Topics) == 2
	})
}
