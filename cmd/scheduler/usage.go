package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/nearest"
)

// checkUsage compares arguments with the Use line of cmd: NAME is required, [NAME] is optional; and requires the flags
// marked so. Flags that are given have a value.
func checkUsage(cmd *cobra.Command, args []string) error {
	if err := checkFlags(cmd); err != nil {
		return err
	}
	names := arguments(cmd)
	how := "write '" + strings.TrimSuffix(cmd.UseLine(), " [flags]") + "'"
	if what, command := commandArgument(cmd); command {
		dash := cmd.ArgsLenAtDash()
		switch {
		case len(args) == 0: // reported below
		case dash < 0:
			return usagef("%s is missing, behind --; %s", what, how)
		case dash == len(args):
			return usagef("%s is missing; %s", what, how)
		default:
			args = args[:dash]
		}
	}
	for i, name := range names {
		if i >= len(args) && !strings.HasPrefix(name, "[") {
			return usagef("%s is missing; %s%s", name, how, where(name))
		}
	}
	if len(args) > len(names) {
		hint := how
		switch one, force := args[len(names)], cmd.Flags().Lookup("force"); {
		case force != nil && force.Changed && force.Value.Type() == "string":
			hint = "if it is the value of --force, write --force=" + one
		case cmd.Name() == "purge":
			hint = "tasks are deleted by --pool or --job and the other flags, not by their id"
		case len(names) > 0:
			hint += ", and put quotes around an argument that has blanks"
		case strings.HasSuffix(one, ".yaml"), strings.HasSuffix(one, ".yml"):
			hint = fmt.Sprintf("name a configuration with -c %s", one)
		}
		return usagef("unexpected argument %q; %s", args[len(names)], hint)
	}
	var missing error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed && missing == nil {
			if !strings.Contains(how, "--"+f.Name) {
				how = strings.TrimSuffix(how, "'") + " " + flagForm(f) + "'"
			}
			missing = usagef("%s is missing; %s", flagForm(f), how)
		}
	})
	return missing
}

// mayBeEmpty marks a flag to which an empty text means something.
const mayBeEmpty = "lockstep_may_be_empty"

// checkFlags refuses a flag that is given without a value, as by a variable that is not set: without the flag a command is about more
// tasks, or changes something else.
func checkFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		is := f.Value.Type() == "string" && f.Value.String() == ""
		if several, ok := f.Value.(pflag.SliceValue); ok {
			is = len(several.GetSlice()) == 0 || slices.Contains(several.GetSlice(), "")
		}
		if is && f.Annotations[mayBeEmpty] == nil && err == nil {
			err = usagef("--%s is empty; give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// unused refuses flags of these names: what is given otherwise makes them ignored. how says why, and what to do.
func unused(cmd *cobra.Command, how string, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return usagef("--%s would be ignored: %s", name, how)
		}
	}
	return nil
}

// ofServers are the flags that are about a replica.
var ofServers = []string{"server", "ca-file", "insecure"}

// commandArgument is the name of what stands behind -- in the Use line of a command that takes another one.
func commandArgument(cmd *cobra.Command) (name string, is bool) {
	_, name, is = strings.Cut(cmd.Use, " -- ")
	return strings.TrimSuffix(name, "…"), is
}

// arguments are the names of arguments in the Use line, in front of --.
func arguments(cmd *cobra.Command) (names []string) {
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "-") { // required flags are last
			break
		}
		names = append(names, word)
	}
	return names
}

// where says how to list the values of an argument.
func where(name string) string {
	switch name {
	case "JOB", "TASK", "POOL":
		things := strings.ToLower(name) + "s"
		return fmt.Sprintf("; 'scheduler %s list' shows the %s", things, things)
	}
	return ""
}

// checkCommand refuses an unknown command of a group.
func checkCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var known []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	hint := cmp.Or(didYouMean(args[0], known), "; there are "+strings.Join(known, ", "))
	return usagef("there is no command %q%s", cmd.CommandPath()+" "+args[0], hint)
}

// flagError rewrites the errors of the flag parser.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown  *pflag.NotExistError
		valued   *pflag.ValueRequiredError
		invalid  *pflag.InvalidValueError
		spelling *pflag.InvalidSyntaxError
	)
	switch {
	case errors.As(err, &unknown):
		if unknown.GetSpecifiedShortnames() != "" {
			return usagef("there is no flag -%s", unknown.GetSpecifiedName())
		}
		if meant := nearest.Key(unknown.GetSpecifiedName(), flagNames(cmd)); meant != "" {
			return usagef("there is no flag --%s; did you mean --%s?", unknown.GetSpecifiedName(), meant)
		}
		return usagef("there is no flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &valued):
		return usagef("--%s has no value; write %s", valued.GetFlag().Name, flagForm(valued.GetFlag()))
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		switch f.Value.Type() {
		case "int", "int64":
			return usagef("--%s %q: must be a whole number", f.Name, invalid.GetValue())
		case "duration":
			return usagef("--%s %q: must be a duration, as %v or 1h30m", f.Name, invalid.GetValue(), 90*time.Second)
		case "bool":
			return usagef("--%s %q: must be true or false, or stand alone", f.Name, invalid.GetValue())
		}
		return usagef("--%s %q: %w", f.Name, invalid.GetValue(), invalid.Unwrap())
	case errors.As(err, &spelling):
		return usagef("%q is no flag; write --name or --name=value", spelling.GetSpecifiedFlag())
	}
	return err
}

func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	slices.Sort(names)
	return names
}

// flagForm is a flag as it is written on the command line.
func flagForm(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return strings.TrimSpace("--" + f.Name + " " + name)
}

const (
	completeWithin = 2 * time.Second // the shell waits
	completeMost   = 500             // names
)

// completions lists the names for an argument of a command's Use line.
var completions = map[string]func(context.Context, *client.Client) []string{
	"JOB":  names((*client.Client).Jobs, func(j wire.Job) string { return j.Name }),
	"POOL": names((*client.Client).Pools, func(p wire.Pool) string { return p.Name }),
}

// names lists the first completeMost names; none if the replica does not answer.
func names[T any](fetch func(*client.Client, context.Context, wire.Page) (wire.List[T], error), name func(T) string) func(context.Context, *client.Client) []string {
	return func(ctx context.Context, c *client.Client) (all []string) {
		list, _ := fetch(c, ctx, wire.Page{Limit: completeMost})
		for _, item := range list.Items {
			all = append(all, name(item))
		}
		return all
	}
}

// complete adds shell completion of job and pool names to cmd and its subcommands: the first completeMost of the
// replica at --server, none if it does not answer.
func (a *app) complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.complete(sub)
	}
	words := strings.Fields(cmd.Use)
	if len(words) != 2 {
		return
	}
	list := completions[strings.Trim(words[1], "[]")]
	if list == nil {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		c, err := a.remote()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		return slices.DeleteFunc(list(ctx, c), func(name string) bool { return !strings.HasPrefix(name, begun) }), cobra.ShellCompDirectiveNoFileComp
	}
}
