// SPDX-License-Identifier: Apache-2.0

//go:build !readtime

package broker

// kernelStamps: messages are stamped by the kernel. Built with the tag readtime, by when they were read, to measure what that costs.
const kernelStamps = true
