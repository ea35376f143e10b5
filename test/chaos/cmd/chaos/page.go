package main

import (
	"fmt"
	"os"
	"strings"
)

// What a page has around the tables.
const (
	begin = "<!-- chaos report: begin -->\n"
	end   = "<!-- chaos report: end -->\n"
)

// put replaces what stands between begin and end in a page.
func put(page, tables string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s: it has no lines %q and %q", page, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(page, []byte(before+begin+tables+end+after), 0o644)
}
