// Seeded lists the seeded bugs, with the test of the product that fails with each, or prints the flags
// for go build and go test that put one in its place:
//
//	go run ./test/chaos/cmd/seeded
//	go test $(go run ./test/chaos/cmd/seeded unchecked-heartbeat) ./store
//
// It is run in the module's root. The files that the flags name stay in the temporary folder.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockstep-scheduler/lockstep/test/chaos/seeded"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch len(args) {
	case 0:
		for _, b := range seeded.All() {
			fmt.Printf("%s\n  %s\n  %s\n", b.Name, b.Mistake, b.Breaks)
			if b.Directly != "" {
				fmt.Printf("  go test $(go run ./test/chaos/cmd/seeded %s) %s\n", b.Name, b.Directly)
			}
		}
		return nil
	case 1:
	default:
		return fmt.Errorf("usage: seeded [NAME]")
	}
	b, err := seeded.Find(args[0])
	if err != nil {
		return err
	}
	dir := filepath.Join(os.TempDir(), "lockstep-seeded", b.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	flags, err := b.Overlay(".", dir)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(flags, " "))
	return nil
}
