package seeded

import (
	"errors"
	"fmt"
	"strings"
)

// Edit is one place of a file: Old becomes New.
type Edit struct {
	File     string // below the module's root
	Old, New string
}

// parse reads a diff without prefixes (git diff --no-prefix). Line numbers are passed over.
func parse(diff string) ([]Edit, error) {
	var edits []Edit
	file, inside := "", false
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	for n, line := range lines {
		if name, is := strings.CutPrefix(line, "+++ "); is {
			file, inside = strings.TrimSpace(name), false
			continue
		}
		if strings.HasPrefix(line, "@@ ") {
			if file == "" {
				return nil, fmt.Errorf("line %d: a change before the name of its file", n+1)
			}
			edits, inside = append(edits, Edit{File: file}), true
			continue
		}
		if strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "--- ") && n+1 < len(lines) && strings.HasPrefix(lines[n+1], "+++ ") {
			inside = false
		}
		if !inside {
			continue
		}
		e := &edits[len(edits)-1]
		mark, text := byte(' '), ""
		if line != "" { // an editor may have cut the blank of an empty line
			mark, text = line[0], line[1:]
		}
		switch mark {
		case ' ':
			e.Old, e.New = e.Old+text+"\n", e.New+text+"\n"
		case '-':
			e.Old += text + "\n"
		case '+':
			e.New += text + "\n"
		case '\\': // no newline at the end of the file
		default:
			return nil, fmt.Errorf("line %d begins with %q", n+1, mark)
		}
	}
	if len(edits) == 0 {
		return nil, errors.New("no changes")
	}
	return edits, nil
}

// apply makes the edits of one file in its text. Each old text must be there exactly once.
func apply(text string, edits []Edit) (string, error) {
	for _, e := range edits {
		if n := strings.Count(text, e.Old); n != 1 {
			return "", fmt.Errorf("%s has this text %d times, not once; if the code has moved on, carry the mistake along (see package seeded):\n%s", e.File, n, e.Old)
		}
		text = strings.Replace(text, e.Old, e.New, 1)
	}
	return text, nil
}
