package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// limitNumber is a flag for a limit; none is 0.
type limitNumber struct{ to **int }

func (limitNumber) Type() string   { return "int" }
func (limitNumber) String() string { return "" }

func (f limitNumber) Set(text string) error {
	n, err := numberOfLimit(text)
	*f.to = &n
	return err
}

func numberOfLimit(text string) (int, error) {
	if text == "none" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("must be a whole number, or none")
	}
	return n, nil
}

// rateOfLimit is the value of a flag for a rate; none is 0.
func rateOfLimit(text string) (jobs.Rate, error) {
	if text == "none" {
		return jobs.Rate{}, nil
	}
	return jobs.ParseRate(text)
}

// kindLimits is a flag for limits by kind, as in mail:max_running=2,rate=10/s. It may be given again, also for the same kind.
type kindLimits map[string]wire.LimitFields

func (kindLimits) Type() string     { return "string" }
func (f kindLimits) String() string { return strings.Join(slices.Sorted(maps.Keys(f)), ",") }

func (f kindLimits) Set(text string) error {
	kind, all, found := strings.Cut(text, ":")
	if !found || kind == "" || all == "" {
		return errors.New("must be KIND:LIMIT=N, as in mail:max_running=2,rate=10/s,burst=1")
	}
	l := f[kind]
	for part := range strings.SplitSeq(all, ",") {
		name, value, found := strings.Cut(part, "=")
		n, err := 0, error(nil)
		switch name {
		case "max_running":
			n, err = numberOfLimit(value)
			l.MaxRunning = &n
		case "burst":
			n, err = numberOfLimit(value)
			l.Burst = &n
		case "rate":
			var rate jobs.Rate
			rate, err = rateOfLimit(value)
			l.Rate = &rate
		default:
			return fmt.Errorf("has no limit %q; name max_running, rate or burst", name)
		}
		if !found {
			return fmt.Errorf("%s has no value; write it as in %s=2", name, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	f[kind] = l
	return nil
}

// weights is a flag for the weight of a key, as in acme=3. A key may have a = in it.
type weights map[string]int

func (weights) Type() string     { return "string" }
func (f weights) String() string { return strings.Join(slices.Sorted(maps.Keys(f)), ",") }

func (f weights) Set(text string) error {
	at := strings.LastIndex(text, "=")
	if at < 1 {
		return errors.New("must be KEY=N, as in acme=3")
	}
	n, err := strconv.Atoi(text[at+1:])
	if err != nil {
		return fmt.Errorf("the weight of %s must be a whole number, 1 to 1000", text[:at])
	}
	f[text[:at]] = n
	return nil
}

// resets is a flag without a value, or with a field, or several behind commas.
type resets struct {
	all    *bool
	fields *[]string
}

func (resets) Type() string { return "string" }

func (f resets) String() string {
	switch {
	case f.all != nil && *f.all:
		return "all"
	case f.fields == nil || *f.fields == nil:
		return "false"
	}
	return strings.Join(*f.fields, ",")
}

func (f resets) Set(text string) error {
	if all, err := strconv.ParseBool(text); err == nil || text == "all" {
		*f.all = all || text == "all"
		return nil
	}
	*f.fields = append(*f.fields, strings.Split(text, ",")...)
	return nil
}
