// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package clients pins NSQ's own programs, which matrix.py builds and runs against the broker.
package clients

import (
	_ "github.com/nsqio/nsq/apps/nsq_tail"
	_ "github.com/nsqio/nsq/apps/nsq_to_file"
	_ "github.com/nsqio/nsq/apps/nsqadmin"
	_ "github.com/nsqio/nsq/apps/nsqlookupd"
)
