// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"giusto.dev/messaging/ensemble"
	"giusto.dev/messaging/fleet"
)

// Seeded plays with real processes: two brokers with their data on small file systems of their own, two distributors
// over a file or, for every eighth play, a real ensemble, and consumers at both brokers that note the kernel's stamps.
// What may happen: SIGTERM, SIGKILL, a stop beyond the lease, a full disk, the end of the distributor that leads, a
// restart of ZooKeeper, a topic that is removed and put again, DPUB, REQ, a backlog; and, in a guest, whose clock may be
// set, a step of it by up to two hours after each of these, after which both brokers must take messages. In each no window of
// what consumers of both brokers get is above the bucket (but for a message a consumer, where a window has the end of a
// stop), what was acknowledged all comes (but for what was with a consumer at a kill), and messages flow in the end.
// GIUSTO_RUNS says how many, GIUSTO_SEED which is the first.
func TestPlaysOfAFleet(t *testing.T) {
	first, plays := 0, 1
	if soak {
		plays = 500
	}
	if n, err := strconv.Atoi(os.Getenv("GIUSTO_RUNS")); err == nil {
		plays = n
	}
	if n, err := strconv.Atoi(os.Getenv("GIUSTO_SEED")); err == nil {
		first = n
	}
	directory := t.TempDir()
	programs := fleet.Programs(os.Getenv("GIUSTO_PROGRAMS")) // a guest has no Go
	if programs == "" {
		var err error
		if programs, err = fleet.Build(directory, "giusto.dev/messaging/cmd/giusto-broker",
			"giusto.dev/messaging/cmd/giusto-distributor"); err != nil {
			t.Fatal(err)
		}
	}
	p := &fleetPlays{T: t, programs: programs, counts: map[string]int{}}
	for seed := first; seed < first+plays; seed++ {
		p.play(seed)
	}
	fmt.Printf("broker: fleet: %d plays from seed %d, %d entries of %d acknowledged messages, %d beyond their bucket, %d lost; "+
		"the longest until all flowed again %v; %v\n",
		plays, first, p.entries, p.acknowledged, p.beyond, p.lost, p.longest.Round(time.Millisecond), p.counts)
}

type fleetPlays struct {
	*testing.T
	programs                            fleet.Programs
	counts                              map[string]int
	entries, acknowledged, beyond, lost int
	longest                             time.Duration
}

func (p *fleetPlays) play(seed int) {
	random := rand.New(rand.NewPCG(uint64(seed), 31))
	directory, err := os.MkdirTemp("", "giusto-play-")
	if err != nil {
		p.Fatal(err)
	}
	defer os.RemoveAll(directory)
	disk := func(n int) string { return filepath.Join(directory, fmt.Sprintf("broker-%d.data", n)) }
	small := true
	for n := range 2 {
		os.Mkdir(disk(n), 0o700)
		if err := syscall.Mount("tmpfs", disk(n), "tmpfs", 0, "size=4m"); err != nil {
			small = false
		} else {
			defer syscall.Unmount(disk(n), syscall.MNT_DETACH)
		}
	}
	store := "store: {file: " + directory + "/store}\n"
	var servers *ensemble.Ensemble
	if seed%8 == 7 {
		if servers, err = ensemble.Open(directory, 3); err == nil { // it takes no fewer
			defer servers.Kill()
			store = "store: {zookeeper: [" + strings.Join(servers.Addresses(), ", ") + "]}\n"
			p.counts["over ZooKeeper"]++
		} else if !errors.Is(err, ensemble.ErrBuilt) {
			p.Fatalf("seed %d: %v", seed, err)
		}
	}
	f, err := fleet.New(p.programs, directory, 2, 2, "mem_queue: 0\ndrain: 0s\nmsg_timeout: 3s\n",
		store+"lease: 3s\nsilent: 2s\ngather: 200ms\n")
	if err != nil {
		p.Fatal(err)
	}
	defer func() {
		for _, one := range append(f.Brokers, f.Distributors...) {
			one.Signal(syscall.SIGCONT)
			one.Kill()
		}
	}()
	rate, depth := 300+random.IntN(1200), 6+random.IntN(30)
	topic := fmt.Sprintf(`{"rate": "%d/s", "depth": "%d"}`, rate, depth)
	if err := f.Ask("PUT", "/topics/kept", topic, nil, 30*time.Second); err != nil {
		p.Fatalf("seed %d: %v", seed, err)
	}
	began, beganAt, happened := time.Now(), wall.now(), []string{}
	note := func(what string, one int) {
		p.counts[what]++
		happened = append(happened, fmt.Sprintf("%v %s %d", time.Since(began).Round(time.Millisecond), what, one))
	}
	const consumers = 2 // at each broker
	var recorders []*recorder
	for n := range 2 {
		recorders = append(recorders, record(p, func() string { return f.V2[n] }, "kept", "test", consumers, 20))
	}
	for _, r := range recorders {
		again := map[string]bool{}
		r.answer = func(e entry) string {
			if len(e.body)%3 == 0 && !again[e.body] && len(again) < 50 {
				again[e.body] = true
				return fmt.Sprintf("REQ %%s %d\n", len(again)%2*20)
			}
			return "FIN %s\n"
		}
	}
	from := p.limited(f, recorders)
	var all []string
	kills, stops := 0, 0
	publishAt := func(n int, step string, count int) bool {
		body := &bytes.Buffer{}
		var names []string
		for m := range count {
			names = append(names, fmt.Sprintf("%d.%s-%d", n, step, m))
			fmt.Fprintln(body, names[m])
		}
		answer, err := (&http.Client{Timeout: 5 * time.Second}).Post("http://"+f.HTTP[n]+"/mpub?topic=kept", "text/plain",
			strings.NewReader(strings.TrimSpace(body.String())))
		if err != nil {
			return false
		}
		if answer.Body.Close(); answer.StatusCode == http.StatusOK {
			all = append(all, names...)
		}
		return answer.StatusCode == http.StatusOK
	}
	publish := func(step string, count int) { publishAt(random.IntN(2), step, count) }
	excess := func() { // of what came until now, of both brokers
		both := &recorder{}
		for _, r := range recorders {
			r.mutex.Lock()
			for _, e := range r.entries {
				if e.after >= from { // what came before may be read late
					both.entries = append(both.entries, e)
				}
			}
			r.mutex.Unlock()
		}
		p.entries += both.count()
		if over, begin, end := both.window(float64(rate), float64(depth)); over > 0.05+float64(consumers*stops) {
			p.beyond++
			p.Errorf("seed %d: %.2f messages beyond %d + %d·t, after %d stops; from %v to %v of the play, in which it happened: %v",
				seed, over, depth, rate, stops,
				time.Duration(begin-beganAt), time.Duration(end-beganAt), happened)
			for n, r := range recorders {
				inside := map[int]int{}
				r.mutex.Lock()
				for _, e := range r.entries {
					if e.after >= begin && e.by <= end {
						inside[e.client]++
					}
				}
				r.mutex.Unlock()
				p.Logf("at broker %d by consumer: %v", n, inside)
			}
		}
	}
	for step := range 4 {
		publish(fmt.Sprint(step), 50+random.IntN(300))
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		one := random.IntN(2)
		switch random.IntN(8) {
		case 0:
			note("SIGTERM", one)
			f.Brokers[one].End()
			p.start(f.Brokers[one])
		case 1:
			note("SIGKILL", one)
			kills++
			f.Brokers[one].Kill()
			p.start(f.Brokers[one])
		case 2:
			note("stopped beyond its lease", one)
			stops++
			f.Brokers[one].Signal(syscall.SIGSTOP)
			time.Sleep(3500 * time.Millisecond)
			f.Brokers[one].Signal(syscall.SIGCONT)
			note("goes on", one)
		case 3:
			if !small {
				continue
			}
			note("full disk", one)
			fill := filepath.Join(disk(one), "fill")
			os.WriteFile(fill, make([]byte, 8<<20), 0o600) // as much as there is room for
			publish(fmt.Sprint(step, "f"), 200)
			time.Sleep(300 * time.Millisecond)
			os.Remove(fill)
		case 4:
			if leader, err := f.Leader(10 * time.Second); err == nil {
				note("distributor killed", one)
				f.Distributors[leader].Kill()
				p.start(f.Distributors[leader])
			}
		case 5:
			if servers != nil {
				note("ZooKeeper restarted", one)
				servers.Kill()
				time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
				for _, server := range servers.Servers {
					if err := server.Begin(); err != nil {
						p.Fatalf("seed %d: %v", seed, err)
					}
				}
			}
		case 6: // between both there is no limit
			note("removed and put again", one)
			excess()
			if f.Ask("DELETE", "/topics/kept", "", nil, 20*time.Second) != nil {
				p.Fatalf("seed %d: not removed", seed)
			}
			time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
			if err := f.Ask("PUT", "/topics/kept", topic, nil, 20*time.Second); err != nil {
				p.Fatalf("seed %d: %v", seed, err)
			}
			from = p.limited(f, recorders)
		case 7:
			note("deferred", one)
			answer, err := asking.Post(fmt.Sprintf("http://%s/pub?topic=kept&defer=%d", f.HTTP[one], random.IntN(300)), "text/plain",
				strings.NewReader("deferred"))
			if err == nil {
				answer.Body.Close()
			}
		}
		if clockIsOurs {
			p.stepClock(seed, random, note, func(n, try int) bool { return publishAt(n, fmt.Sprint(step, "c", try), 20) })
		}
	}
	// All flows again.
	flows := time.Now()
	missing := func() (left int) {
		seen := map[string]int{}
		for _, r := range recorders {
			for body := range r.bodies() {
				seen[body]++
			}
		}
		for _, body := range all {
			if seen[body] == 0 {
				left++
			}
		}
		return left
	}
	with := consumers * kills // what was with a consumer then
	for missing() > 0 && time.Since(flows) < 40*time.Second && (missing() > with || time.Since(flows) < 10*time.Second) {
		time.Sleep(20 * time.Millisecond)
	}
	p.longest = max(p.longest, time.Since(flows))
	if left := missing(); left > with {
		p.lost += left
		p.Errorf("seed %d: %d of %d acknowledged messages did not come, after %d kills: %v", seed, left, len(all), kills, happened)
		status, err := f.Topic("kept")
		p.Logf("%+v %v", status, err)
	}
	p.acknowledged += len(all)
	for _, r := range recorders {
		r.stop()
	}
	excess()
}

// stepClock sets the wall clock, and sees that both brokers take messages still.
func (p *fleetPlays) stepClock(seed int, random *rand.Rand, note func(string, int), publish func(n, try int) bool) {
	by := []time.Duration{time.Hour, -time.Hour, 2 * time.Hour, -2 * time.Hour, 10 * time.Second, -10 * time.Second}[random.IntN(6)]
	if err := wall.step(by); err != nil {
		p.Fatal(err)
	}
	note("clock set by "+by.String(), 0)
	for n := range 2 {
		end := time.Now().Add(30 * time.Second)
		for try := 0; !publish(n, try); try++ {
			if time.Now().After(end) {
				p.Errorf("seed %d: broker %d takes no messages, %v after the clock was set by %v", seed, n, 30*time.Second, by)
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

var asking = &http.Client{Timeout: 5 * time.Second}

func (p *fleetPlays) start(one *fleet.Process) {
	if err := one.Start(); err != nil {
		p.Fatal(err)
	}
}

// limited waits until a topic that was put has a share in force: then all brokers know of it. Before, one that had
// orders without it lets it pass. What came until then is not looked at.
func (p *fleetPlays) limited(f *fleet.Fleet, recorders []*recorder) (from int64) {
	known := false
	for end := time.Now().Add(30 * time.Second); !known && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, address := range f.HTTP { // who has something to let out gets a share
			if answer, err := asking.Post("http://"+address+"/pub?topic=kept", "text/plain", strings.NewReader("probe")); err == nil {
				answer.Body.Close()
			}
		}
		status, err := f.Topic("kept")
		for _, share := range status.Shares {
			known = known || err == nil && share.InForce && share.Rate > 0
		}
	}
	if !known {
		p.Fatal("a topic that was put has no share in force")
	}
	from = wall.now()
	for _, r := range recorders {
		r.mutex.Lock()
		r.before, r.entries = append(r.before, r.entries...), nil
		r.mutex.Unlock()
	}
	return from
}
