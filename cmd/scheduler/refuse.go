package main

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/config"
)

// refusal is what programs get of a configuration that cannot be used.
type refusal struct {
	Errors []configError `json:"errors"`
}

type configError struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

// refuse says everything that is wrong with a configuration: to people on stderr, to programs (-o
// json, -o yaml) on stdout.
func (a *app) refuse(bad config.Errors) {
	if a.output == "table" {
		fmt.Fprintln(a.stderr, bad.Error())
		return
	}
	r := refusal{Errors: make([]configError, len(bad))}
	for i, e := range bad {
		r.Errors[i] = configError(e)
	}
	if err := a.print(r, nil); err != nil {
		fmt.Fprintln(a.stderr, bad.Error())
	}
}
