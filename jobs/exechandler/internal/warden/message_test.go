package warden

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

func TestFrames(t *testing.T) {
	first := order{ID: 1, Start: &Command{
		Program: "/bin/x", Argv: [][]byte{[]byte("x"), []byte("\xff\x80")}, Env: [][]byte{[]byte("A=\xfe")}, Until: []boottime.Stamp{{At: time.Hour}, {Awake: true}}, Grace: 1,
	}}
	second := order{ID: 2, KillBy: &boottime.Stamp{Awake: true, At: 5}}
	var stream []byte
	for _, o := range []order{first, second} {
		message, err := frame(o)
		if err != nil {
			t.Fatal(err)
		}
		stream = append(stream, message...)
	}
	var got []order
	var buf []byte
	for i := range stream { // it may come byte by byte
		buf = append(buf, stream[i])
		body, rest, err := cut(buf)
		if err != nil {
			t.Fatal(err)
		}
		if buf = rest; body == nil {
			continue
		}
		o, err := readOrder(body)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o)
	}
	if diff := cmp.Diff([]order{first, second}, got); diff != "" || len(buf) > 0 {
		t.Errorf("%d bytes are left, orders (−want +got):\n%s", len(buf), diff)
	}
	if _, err := frame(strings.Repeat("x", maxFrame)); !errors.Is(err, errFrame) {
		t.Errorf("a message that is too long: %v", err)
	}
}

func TestMalformedMessages(t *testing.T) {
	for _, buf := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x01\x00\x00\x01"} {
		if body, _, err := cut([]byte(buf)); body != nil || !errors.Is(err, errFrame) {
			t.Errorf("%q: %q, %v", buf, body, err)
		}
	}
	for _, body := range []string{"", "null x", "[]", `{"ID":-1}`, `{"ID":1,"Start":{}}`, `{"Start":{"Program":"x"}}`, `{"Start":{"Argv":["eA=="]}}`, `{"Until":[{"at":"x"}]}`} {
		if _, err := readOrder([]byte(body)); !errors.Is(err, errFrame) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func FuzzOrders(f *testing.F) {
	whole, _ := frame(order{ID: 1, Start: &Command{Program: "x", Argv: [][]byte{[]byte("x")}}})
	f.Add(whole)
	f.Add([]byte("\x00\x00\x00\x02{}\x00\x00"))
	f.Add([]byte("\xff"))
	f.Fuzz(func(t *testing.T, buf []byte) {
		for {
			body, rest, err := cut(buf)
			if err != nil || body == nil {
				return
			}
			if len(rest) >= len(buf) {
				t.Fatal("nothing was cut off")
			}
			if o, err := readOrder(body); err == nil && o.Start != nil && len(o.Start.Argv) == 0 {
				t.Fatal("there is nothing to start")
			}
			buf = rest
		}
	})
}
