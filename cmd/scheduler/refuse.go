package main

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/config"
)

// refusal is a configuration's errors as JSON or YAML.
type refusal struct {
	Errors config.Errors `json:"errors"`
}

// refuse prints all errors of a configuration: as text on stderr, or with -o json and -o yaml on stdout.
func (a *app) refuse(bad config.Errors) {
	if a.output == "table" {
		fmt.Fprintln(a.stderr, bad.Error())
		return
	}
	if err := a.print(refusal{bad}, nil); err != nil {
		fmt.Fprintln(a.stderr, bad.Error())
	}
}
