package mutants

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed equivalents.txt
var equivalentsText string

// equivalents are mutants that change nothing visible, with the reason, from equivalents.txt: a name, and below
// it, indented, the reason.
func equivalents() (map[string]string, error) {
	all := map[string]string{}
	name := ""
	for i, line := range strings.Split(equivalentsText, "\n") {
		reason, indented := strings.CutPrefix(line, "\t")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case indented && name != "":
			all[name] = reason
			name = ""
		case indented || name != "":
			return nil, fmt.Errorf("equivalents.txt:%d: a name and its reason come in turns", i+1)
		case all[line] != "":
			return nil, fmt.Errorf("equivalents.txt:%d: %s is there twice", i+1, line)
		default:
			name = line
		}
	}
	if name != "" {
		return nil, fmt.Errorf("equivalents.txt: %s has no reason", name)
	}
	return all, nil
}
