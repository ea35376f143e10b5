package main

import (
	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/docs"
)

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
