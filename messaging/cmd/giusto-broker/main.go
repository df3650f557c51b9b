// SPDX-License-Identifier: Apache-2.0

// giusto-broker is a message broker that speaks NSQ's protocol, with exact rate limits for topics. See README.md.
package main

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"giusto.dev/messaging/broker"
	"giusto.dev/messaging/command"
	"giusto.dev/messaging/settings"
)

const usage = `giusto-broker FILE          runs a broker by a static file, until SIGTERM; SIGHUP reloads the file's topics
giusto-broker --guarded FILE  the same, and when it is killed its distributor is told at once
giusto-broker --check FILE  says what is wrong with a file, if anything
`

func main() {
	path, flag := command.File(command.Arguments("giusto-broker"), usage, "--check", "--guarded")
	s, err := settings.Read(path)
	command.Must(err, command.BadInput)
	if flag == "--check" {
		fmt.Printf("%s: %d topics with a limit\n", path, len(s.Topics))
		return
	}
	if flag == "--guarded" {
		os.Exit(guard(path, s))
	}
	collect(int64(s.Memory), s.MemQueue)
	go adapt()
	b, err := broker.Start(s, log.Printf)
	if err != nil {
		log.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	fmt.Printf("giusto-broker: ready: %s, http %s\n", b.Addr(), b.HTTPAddr())
	for {
		select {
		case got := <-signals:
			if got == syscall.SIGHUP {
				if err := b.Reload(path); err != nil {
					log.Print(err)
				} else {
					log.Print("reloaded ", path)
				}
				continue
			}
			b.Stop()
			return
		case err := <-b.Ended():
			log.Fatal("nsqd ended: ", err)
		}
	}
}
