// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Options that no client can work with are refused, by what is wrong.
func TestOptionsThatMakeNoSense(t *testing.T) {
	for named, spoil := range map[string]func(*Options){
		"distributors": func(o *Options) { o.Distributors = nil },
		"not a topic":  func(o *Options) { o.Topic = "a/b" },
		"buffer":       func(o *Options) { o.Buffer = -1 },
		"of -1s":       func(o *Options) { o.Patience = -time.Second },
		"of 9ms":       func(o *Options) { o.Patience = 9 * time.Millisecond },
	} {
		o := Options{Distributors: []string{"127.0.0.1:1"}, Topic: "t", Publisher: "p"}
		spoil(&o)
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%s: %v", named, r)
				}
			}()
			c, err := New(o)
			if err == nil {
				c.Stop(context.Background())
			}
			if err == nil || !strings.Contains(err.Error(), named) {
				t.Errorf("%s: %v", named, err)
			}
		}()
	}
}
