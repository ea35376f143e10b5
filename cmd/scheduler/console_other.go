//go:build !unix

package main

import "os"

const terminalFlags = os.O_RDONLY // there is no /dev/tty
