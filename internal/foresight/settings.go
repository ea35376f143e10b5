package foresight

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// FieldChange is a setting that differs. Its name is as in the file, with dots: catch_up.window.
type FieldChange struct {
	Field    string
	Old, New string // empty: not set
	// Hidden: what differs is not shown, since it may be secret, as the environment of a command. Old and New are then what may be shown, and may
	// be equal.
	Hidden bool
}

// Differences are the settings in which two values of one struct type differ, in their order; the elements of maps by key. Empty and left out is
// the same.
func Differences(old, now any) []FieldChange {
	a, b := &settings{}, &settings{}
	a.add("", reflect.ValueOf(old))
	b.add("", reflect.ValueOf(now))
	was, is := a.byField(), b.byField()
	var all []FieldChange
	for _, field := range merged(a.all, b.all) {
		x, y := was[field], is[field]
		if x.shown == y.shown && x.hidden == y.hidden {
			continue
		}
		all = append(all, FieldChange{field, x.shown, y.shown, x.shown == y.shown || x.masked || y.masked})
	}
	return all
}

// setting is a field with its value as text.
type setting struct {
	field  string
	shown  string // what people may see
	hidden string // what tells it from others, and is never shown
	masked bool   // no part of the value is shown
}

// settings are all fields of a value, but for those that are not set.
type settings struct{ all []setting }

func (s *settings) byField() map[string]setting {
	m := make(map[string]setting, len(s.all))
	for _, one := range s.all {
		m[one.field] = one
	}
	return m
}

// merged are the fields of both in their order; those that one of them alone has, the first one's first.
func merged(a, b []setting) []string {
	var all []string
	second := make(map[string]bool, len(b))
	for _, one := range b {
		second[one.field] = true
	}
	for _, one := range b {
		for len(a) > 0 && !second[a[0].field] {
			all, a = append(all, a[0].field), a[1:]
		}
		if len(a) > 0 && a[0].field == one.field {
			a = a[1:]
		}
		all = append(all, one.field)
	}
	for _, one := range a {
		all = append(all, one.field)
	}
	return all
}

var (
	handlerType = reflect.TypeFor[jobs.Handler]()
	timeType    = reflect.TypeFor[time.Time]()
)

// add adds the settings of v, whose name is path.
func (s *settings) add(path string, v reflect.Value) {
	switch {
	case !v.IsValid() || v.IsZero():
		return
	case v.Type() == handlerType:
		h := v.Interface().(jobs.Handler)
		s.all = append(s.all, setting{field: path, shown: describe(h), hidden: identity(h)})
		return
	case v.Type() == timeType:
		s.set(path, v.Interface().(time.Time).UTC().Format(time.RFC3339Nano))
		return
	case v.Kind() == reflect.Interface: // any, as a payload: nobody knows what it is
		text, _ := json.Marshal(v.Interface())
		s.all = append(s.all, setting{field: path, hidden: string(text), masked: true})
		return
	}
	if text, ok := v.Interface().(fmt.Stringer); ok {
		s.set(path, text.String())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.Elem().IsZero() {
			s.set(path, "{}")
			return
		}
		s.add(path, v.Elem())
	case reflect.Struct:
		for f, value := range v.Fields() {
			if f.IsExported() {
				s.add(below(path, snake(f.Name)), value)
			}
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(maps.Keys(keys(v)), strings.Compare) {
			if s.element(below(path, key), v.MapIndex(reflect.ValueOf(key).Convert(v.Type().Key()))) {
				s.set(below(path, key), "{}")
			}
		}
	case reflect.Slice, reflect.Array:
		s.list(path, v)
	default:
		s.set(path, fmt.Sprint(v.Interface()))
	}
}

// element adds an element of a map; empty reports that it has no settings, though it is there.
func (s *settings) element(path string, v reflect.Value) (empty bool) {
	before := len(s.all)
	s.add(path, v)
	return len(s.all) == before
}

// list adds a list of values as one setting, and one of structs element by element.
func (s *settings) list(path string, v reflect.Value) {
	if v.Len() > 0 && v.Index(0).Kind() == reflect.Struct && v.Type().Elem() != timeType {
		for i := range v.Len() {
			s.add(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
		return
	}
	words := make([]string, v.Len())
	for i := range words {
		words[i] = fmt.Sprint(v.Index(i).Interface())
	}
	if len(words) == 0 { // empty and not nil: it says something
		words = []string{"[]"}
	}
	s.set(path, strings.Join(words, ", "))
}

func (s *settings) set(path, text string) { s.all = append(s.all, setting{field: path, shown: text}) }

func keys(m reflect.Value) map[string]bool {
	all := make(map[string]bool, m.Len())
	for _, key := range m.MapKeys() {
		all[key.String()] = true
	}
	return all
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// snake is the key of a field: MaxRunning is max_running.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// describe is what people may see of a handler.
func describe(h jobs.Handler) string {
	text := ""
	if d, ok := unwrap.As[jobs.Described](h); ok {
		text = d.Describe()
	}
	return cmp.Or(text, fmt.Sprintf("%T", unwrap.Innermost(h)))
}

// identity tells a handler from others; it may hold secrets.
func identity(h jobs.Handler) string {
	if i, ok := unwrap.As[jobs.Identified](h); ok {
		return i.Identity()
	}
	return ""
}
