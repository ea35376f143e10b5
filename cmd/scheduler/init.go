package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/docs"
)

//go:embed start.yaml
var startFile []byte

func newInitCommand(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented configuration to start with",
		Long:  "Write a commented configuration to start with, by default ./" + defaultFile + ". It runs as it is.",
		RunE: func(_ *cobra.Command, args []string) error {
			path := defaultFile
			switch {
			case len(args) == 1:
				path = args[0]
			case a.configFlag != "":
				path = a.configFlag
			}
			if err := writeStart(path, force); err != nil {
				return err
			}
			option := ""
			if path != defaultFile {
				option = " -c " + path
			}
			fmt.Fprintf(a.stdout, "Wrote %s. Next:\n  scheduler%s validate\n  scheduler%s serve\n", path, option, option)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite FILE")
	return cmd
}

// writeStart writes the start file; without force an existing file is an error.
func writeStart(path string, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; --force overwrites it", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(startFile)
	return errors.Join(err, f.Close())
}

func newSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration, for editors",
		Long: "Print the JSON Schema (draft 2020-12) of the configuration. Editors complete and explain keys with it, and\n" +
			"show mistakes. The YAML language server finds it by a first line such as:\n" +
			"  # yaml-language-server: $schema=lockstep.schema.json\n" +
			"'scheduler validate' finds more mistakes than the schema can describe.",
		Example: "  scheduler schema > lockstep.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.exact.Write(docs.Schema)
			return err
		},
	}
}
