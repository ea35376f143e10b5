// Package docs checks the documents: their blocks run, their links exist.
//
// A block's language decides: sh and console run in order, beside real replicas; yaml loads; json
// parses; crontab is imported; go stands word for word in a file that runs, or, on the page about locks, is part of
// one program; text is left alone.
// Comments above a block, which readers of the page do not see, say the rest:
//
//	<!-- not run: the reason -->           for what this machine cannot do, and other programs' files
//	<!-- under: jobs.backup -->            where a piece of YAML belongs
//	<!-- before: shell lines -->           what the block's commands need to be there
package docs
