package main

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/config"
)

// refusal is what programs get of a configuration that cannot be used.
type refusal struct {
	Errors config.Errors `json:"errors"`
}

// refuse says everything that is wrong with a configuration: to people on stderr, to programs (-o
// json, -o yaml) on stdout.
func (a *app) refuse(bad config.Errors) {
	if a.output == "table" {
		fmt.Fprintln(a.stderr, bad.Error())
		return
	}
	if err := a.print(refusal{bad}, nil); err != nil {
		fmt.Fprintln(a.stderr, bad.Error())
	}
}
