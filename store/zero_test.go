package store_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// The calls of a Store that was not made by New say so, and do not panic.
func TestZeroStoreFails(t *testing.T) {
	s := &store.Store{}
	sides := s.Sides()
	refused := map[string]bool{}
	for _, side := range []any{s, sides.Replica, sides.API, sides.Audit, sides.Admin} {
		callAll(t, reflect.ValueOf(side), refused)
	}
	if len(refused) < 40 {
		t.Errorf("%d methods say so", len(refused))
	}
}

// callAll calls all methods of s, and notes those that refuse.
func callAll(t *testing.T, s reflect.Value, refused map[string]bool) {
	t.Helper()
	for i := range s.NumMethod() {
		name, method := s.Type().Method(i).Name, s.Method(i)
		var args []reflect.Value
		for k := range method.Type().NumIn() {
			in := method.Type().In(k)
			switch {
			case in == reflect.TypeFor[context.Context]():
				args = append(args, reflect.ValueOf(t.Context()))
			case in == reflect.TypeFor[[]jobs.NewTask]():
				args = append(args, reflect.ValueOf([]jobs.NewTask{{Pool: "p"}}))
			case in == reflect.TypeFor[jobs.NewTask]():
				args = append(args, reflect.ValueOf(jobs.NewTask{Pool: "p"}))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		call := method.Call
		if method.Type().IsVariadic() {
			call = method.CallSlice
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s panics: %v", name, p)
				}
			}()
			answers := call(args)
			if err, _ := answers[len(answers)-1].Interface().(error); err != nil && strings.Contains(err.Error(), "not made by store.New") {
				refused[name] = true
			} else {
				t.Logf("%s: %v", name, err)
			}
		}()
	}
}

// What a program sees of a Store has types of this module's public packages alone, but for Sides.
func TestUsersSeeNothingInternal(t *testing.T) {
	var internal func(in reflect.Type) bool
	internal = func(in reflect.Type) bool {
		switch in.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			return internal(in.Elem())
		case reflect.Map:
			return internal(in.Key()) || internal(in.Elem())
		}
		return strings.Contains(in.PkgPath(), "/internal/")
	}
	var found []string
	for s, i := reflect.TypeFor[*store.Store](), 0; i < s.NumMethod(); i++ {
		method := s.Method(i)
		of := slices.Concat(slices.Collect(method.Type.Ins()), slices.Collect(method.Type.Outs()))
		if slices.ContainsFunc(of, internal) {
			found = append(found, method.Name)
		}
	}
	if !slices.Equal(found, []string{"Sides"}) {
		t.Errorf("types of internal packages are in the signatures of %q", found)
	}
}
