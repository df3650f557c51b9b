// SPDX-License-Identifier: Apache-2.0

//go:build readtime

package broker

// kernelStamps: see stamps.go.
const kernelStamps = false
