package store_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// The calls of a Store that was not made by New say so, and do not panic.
func TestZeroStoreFails(t *testing.T) {
	s := reflect.ValueOf(&store.Store{})
	refused := 0
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
				refused++
			} else {
				t.Logf("%s: %v", name, err)
			}
		}()
	}
	if refused < 30 {
		t.Errorf("%d methods say so", refused)
	}
}
