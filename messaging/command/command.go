// SPDX-License-Identifier: Apache-2.0

// Package command is what the programs have in common: a settings file on the command line, which is checked, or run until
// SIGTERM.
package command

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Exit codes, as of giusto itself.
const (
	BadInput = 2
	Failed   = 4
)

// Arguments are those of the program called name, which logs by that name from now on.
func Arguments(name string) []string {
	log.SetFlags(0)
	log.SetPrefix(name + ": ")
	return os.Args[1:]
}

// File is FILE of the arguments `[FLAG] FILE`, and the flag, one of flags or empty. Other arguments end the program with its
// usage.
func File(arguments []string, usage string, flags ...string) (path, flag string) {
	if len(arguments) > 0 && slices.Contains(flags, arguments[0]) {
		flag, arguments = arguments[0], arguments[1:]
	}
	if len(arguments) != 1 || arguments[0] == "" || arguments[0][0] == '-' {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(BadInput)
	}
	return arguments[0], flag
}

// Must ends the program with code if there is an error.
func Must(err error, code int) {
	if err != nil {
		log.Print(err)
		os.Exit(code)
	}
}

// Ends tells when the program is to end.
func Ends() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return signals
}
