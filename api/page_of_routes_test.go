package api

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPageOfRoutes: docs/api.md has every route with its role and its parameters, and no other, and every code of an error.
func TestPageOfRoutes(t *testing.T) {
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{} // by route, the cells of its line
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|\n "), " |")
		for _, name := range regexp.MustCompile("`((?:GET|POST|PATCH|DELETE) /[^`]*)`").FindAllStringSubmatch(cells[0], -1) {
			rows[name[1]] = cells
		}
	}
	words := map[Role]string{anyone: "none", Viewer: "viewer", Operator: "operator", Admin: "admin", Worker: "worker"}
	for _, route := range routes {
		name := route.method + " " + route.path
		cells, is := rows[name]
		if !is {
			t.Errorf("%s is missing", name)
			continue
		}
		delete(rows, name)
		if got := strings.TrimSpace(cells[1]); got != words[route.role] {
			t.Errorf("%s: its role is %q, want %s", name, got, words[route.role])
		}
		for _, parameter := range strings.Fields(route.parameters) {
			same := strings.Contains(cells[2], "the same")
			if parameter != "*" && !same && !strings.Contains(cells[2], "`"+parameter+"`") && !strings.Contains(cells[2], "`"+parameter+"=") {
				t.Errorf("%s: its parameter %s is missing", name, parameter)
			}
		}
	}
	for name := range rows {
		t.Errorf("%s is no route", name)
	}
	for _, code := range codes(t) {
		if !strings.Contains(string(text), "`"+code+"`") {
			t.Errorf("the code %s is missing", code)
		}
	}
}

// codes are those of all errors, from the source.
func codes(t *testing.T) (all []string) {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`newProblem\([a-zA-Z.]+, "([a-z_]+)"|Problem\{Code: "([a-z_]+)"`)
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range code.FindAllStringSubmatch(string(text), -1) {
			all = append(all, found[1]+found[2])
		}
	}
	if len(all) < 20 {
		t.Fatalf("found %d codes only", len(all))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
