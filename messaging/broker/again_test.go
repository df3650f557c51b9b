// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"testing"
)

// Killed again before nsqd has written where its queue ends, a broker whose topics are on disk loses nothing either.
func TestNothingAcknowledgedIsLostWhenKilledAgainAtOnce(t *testing.T) {
	data := t.TempDir()
	text := "mem_queue: 0\ntopics: {kept: {rate: 5k/s, depth: 50, limit: publishing}}"
	want := map[string]bool{}
	for kill := range 4 {
		command, address, _ := child(t, data, text)
		p := producer(t, address, nil)
		for n := range 30 {
			body := fmt.Sprintf("%d-%d", kill, n)
			if err := p.Publish("kept", []byte(body)); err != nil {
				t.Fatal(err)
			}
			want[body] = true
		}
		command.Process.Kill()
		command.Wait()
		p.Stop()
	}
	_, address, _ := child(t, data, text)
	c, got := consume(t, address, "kept", nil)
	defer c.Stop()
	settled(t, "messages missing", 0, func() int {
		for {
			select {
			case m := <-got:
				delete(want, m.body)
			default:
				return len(want)
			}
		}
	})
}
