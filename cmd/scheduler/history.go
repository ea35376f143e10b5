package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newJobsHistoryCommand(a *app) *cobra.Command {
	limit := 50
	cmd := &cobra.Command{
		Use:   "history JOB",
		Short: "List the definitions that a job has had, the latest first",
		Long: "List the definitions that a job has had, the one first that began to govern last, and what changed with each. Due times name the one\n" +
			"that they were decided under, see 'scheduler triggers list -o json'. A definition that came back has one row: SINCE and UNTIL are of the last time that it governed, and\n" +
			"first_at of -o json is when it governed first. Of values that may be secret it shows none.",
	}
	cmd.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		if limit < 0 {
			return usagef("--limit %d: must be 0 or more", limit)
		}
		rows, more, err := collect(limit, func(p wire.Page) (wire.List[wire.Definition], error) { return c.History(ctx, args[0], p) })
		if err != nil {
			return err
		}
		if more {
			fmt.Fprintf(a.stderr, "Only the latest %d are shown; see --limit.\n", limit)
		}
		return a.print(rows, func(w io.Writer) error {
			before := map[string]wire.Definition{}
			for i, d := range rows[:max(0, len(rows)-1)] {
				before[d.Hash] = rows[i+1]
			}
			fmt.Fprint(a.stderr, returned(rows))
			return table(w, "HASH CONFIG SINCE(UTC) UNTIL(UTC) CHANGED", rows, func(d wire.Definition) []string {
				until := utc(d.Until)
				if d.Until.IsZero() {
					until = "governs"
				}
				return []string{d.Hash, fmt.Sprint(d.Config), utc(d.Since), until, changedFields(before[d.Hash], d)}
			})
		})
	})
	cmd.Flags().IntVar(&limit, "limit", limit, "show the latest `N`; 0 shows all")
	return cmd
}

// returned says of definitions that governed before the time that their row has; "" if none did.
func returned(rows []wire.Definition) string {
	var said strings.Builder
	for _, d := range rows {
		if d.FirstAt.Before(d.Since) {
			fmt.Fprintf(&said, "note: %s governed before, first from %s UTC; SINCE and UNTIL are of the last time\n", d.Hash, utc(d.FirstAt))
		}
	}
	return said.String()
}

// changedFields names what differs from the definition before; "" of the first that is known.
func changedFields(before, d wire.Definition) string {
	if before.Hash == "" {
		return ""
	}
	var names []string
	for _, c := range wire.Changes(before, d) {
		names = append(names, c.Field)
	}
	return strings.Join(names, ", ")
}

// definitionDiff is what changed between two definitions of a job.
type definitionDiff struct {
	Job     string        `json:"job"`
	From    string        `json:"from"` // hash
	To      string        `json:"to"`
	Changes []wire.Change `json:"changes"`
}

func newJobsDiffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "diff JOB [HASH1] [HASH2]",
		Short: "Show what changed in the definition of a job",
		Long: "Show in which settings two definitions of a job differ: the last two, or HASH1 and the latest one, or HASH1 and HASH2. The first digits\n" +
			"of a hash are sufficient, as 'scheduler jobs history JOB' shows them. What is not shown, such as values of variables, may differ, too.",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			rows, _, err := collect(everything, func(p wire.Page) (wire.List[wire.Definition], error) { return c.History(ctx, args[0], p) })
			if err != nil {
				return err
			}
			from, to, err := chosen(rows, args)
			if err != nil {
				return err
			}
			diff := definitionDiff{args[0], from.Hash, to.Hash, append([]wire.Change{}, wire.Changes(from, to)...)}
			return a.print(diff, func(w io.Writer) error { return showDiff(w, from, to, diff.Changes) })
		}),
	}
}

// chosen are the definitions that the arguments of diff name.
func chosen(rows []wire.Definition, args []string) (from, to wire.Definition, err error) {
	if len(rows) == 0 {
		return from, to, fmt.Errorf("job %s has no history: its definition has not been written since the store keeps one", args[0])
	}
	to = rows[0]
	switch len(args) {
	case 1:
		if len(rows) == 1 {
			return from, to, fmt.Errorf("job %s has had one definition only, %s, since %s", args[0], to.Hash, to.FirstAt.Format(time.RFC3339))
		}
		from = rows[1]
	case 3:
		if to, err = definitionOf(rows, args[0], args[2]); err != nil {
			return from, to, err
		}
		fallthrough
	case 2:
		from, err = definitionOf(rows, args[0], args[1])
	}
	return from, to, err
}

// definitionOf is the definition whose hash begins so.
func definitionOf(rows []wire.Definition, job, hash string) (found wire.Definition, err error) {
	for _, d := range rows {
		if hash == "" || !strings.HasPrefix(d.Hash, strings.ToLower(hash)) {
			continue
		}
		if found.Hash != "" {
			return found, usagef("%s is the begin of several hashes; give more of its digits", hash)
		}
		found = d
	}
	if found.Hash == "" {
		return found, usagef("job %s has had no definition %.40q; 'scheduler jobs history %s' shows them", job, hash, job)
	}
	return found, nil
}

func showDiff(w io.Writer, from, to wire.Definition, changes []wire.Change) error {
	fmt.Fprintf(w, "from %s, since %s UTC\n  to %s, since %s UTC\n\n", from.Hash, utc(from.Since), to.Hash, utc(to.Since))
	switch {
	case len(changes) == 0:
		fmt.Fprintln(w, "They are the same.")
		return nil
	case changes[0].Field == wire.Hidden:
		fmt.Fprintln(w, "They differ in what is not shown: a value of a variable or header, a query, a body, or, of definitions by older programs, what is in a calendar.")
		return nil
	}
	return table(w, "SETTING FROM TO", changes, func(c wire.Change) []string {
		return []string{c.Field, plainValue(c.From), plainValue(c.To)}
	})
}

// plainValue is a JSON value in a cell: a string without its quotes.
func plainValue(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}
