// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A real-time clock that was set is no sleep.
func TestASetClockIsNoSleep(t *testing.T) {
	c := New()
	slept := c.Slept.Load()
	now := time.Now()
	c.real.Add(-int64(time.Hour)) // as if it was put forward since
	if off := int64(c.Ahead(now)) - slept; off > 1e7 || off < -1e7 {
		t.Errorf("%v slept", time.Duration(off))
	}
	if off := c.real.Load() - (now.UnixNano() - int64(c.At(now))); off > 1e7 || off < -1e7 {
		t.Error("it was not looked again")
	}
}

// The leases' time is not behind the gates', also right after a boot: else every lease would seem to be over. What is a
// second after a boot is a time namespace's business, which takes root.
func TestRightAfterABootNoLeaseSeemsOver(t *testing.T) {
	if os.Getenv("JUST_BOOTED") == "" {
		var boot unix.Timespec
		unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
		child := exec.Command("unshare", "--time", "--fork", fmt.Sprint("--boottime=", 1-boot.Sec), os.Args[0], "-test.run", t.Name())
		child.Env = append(os.Environ(), "JUST_BOOTED=1")
		if text, err := child.CombinedOutput(); err != nil && exec.Command("unshare", "--time", "true").Run() == nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	c, now := New(), time.Now()
	if ahead := c.Ahead(now); c.Leases(now) < c.At(now) || ahead > uint64(20*365*24*time.Hour) {
		t.Errorf("the leases' time is ahead by %d ns", int64(ahead))
	}
}
