package main

import (
	"github.com/spf13/cobra"

	"github.com/tierml/tierml/cmd/tierml/internal/cli"
	"github.com/tierml/tierml/cmd/tierml/internal/settings"
)

// groups are the commands on the first screen, in the order in which a newcomer meets them.
var groups = []cli.Group{
	{Title: "Begin", Commands: []string{"demo", "init", "doctor", "plan", "run", "train", "predict"}},
	{Title: "Watch", Commands: []string{"ps", "top", "events", "logs", "sweep", "state", "dashboard", "report"}},
	{Title: "Intervene", Commands: []string{"exec", "ssh", "forward", "why", "scale", "pause", "resume", "stop", "drill", "rm", "leaks", "down"}},
	{Title: "Markets and simulations", Commands: []string{"market", "prices", "dry-run", "calibrate"}},
	{Title: "Serve others", Commands: []string{"server", "hosts", "fetch", "fakecloud"}},
	{Title: "The tool itself", Commands: []string{"config", "completion", "docs", "help", "version"}},
}

// otherWords are what users of other tools type for a command.
var otherWords = map[string][]string{
	"init":   {"new", "create", "generate", "setup"},
	"doctor": {"check", "verify", "diagnose", "preflight"},
	"plan":   {"estimate", "validate", "optimize", "preview", "offer"},
	"run":    {"launch", "submit", "start", "up", "apply"},
	"train":  {"fit", "learn"}, "predict": {"infer", "inference", "score", "evaluate"},
	"ps":     {"ls", "list", "status", "jobs", "queue", "get", "runs"},
	"top":    {"watch", "attach", "monitor", "show"},
	"events": {"event", "history", "journal", "describe"},
	"logs":   {"log", "tail"}, "dashboard": {"ui", "web", "serve"},
	"report": {"cost", "costs", "cost-report", "bill", "summary", "compare"},
	"scale":  {"resize", "autoscale"}, "stop": {"cancel", "kill", "abort", "end"},
	"drill": {"chaos", "inject", "evict", "test"}, "market": {"spot", "pools", "show-gpus", "quotes"},
	"prices": {"price", "pricing", "history"}, "dry-run": {"dryrun", "simulate", "sim", "backtest"},
	"leaks": {"leak", "orphans", "machines", "instances"}, "down": {"destroy", "delete", "teardown", "terminate"},
	"ssh":     {"shell", "connect", "login"},
	"forward": {"port", "ports", "tunnel", "port-forward"},
	"server":  {"daemon"}, "fetch": {"download", "cp", "pull"},
	"rm":     {"remove", "prune", "cleanup"},
	"docs":   {"man", "manual", "documentation", "pages"},
	"config": {"settings", "configure", "env"},
}

const exitCodesPage = `Scripts may rely on these:

` + exitCodes + `

tierml doctor also exits with 1 if a check failed, tierml leaks if a machine is past its lease.`

const environmentPage = `A flag or setting that is left out takes its value from a variable such as TIERML_DRY_RUN_STARTS, else from the
settings file; tierml config shows all. Other variables:

  TIERML_CONFIG     the settings file; default: tierml/config.yaml in the user's configuration directory
  TIERML_PRICES     the price store of tierml prices and tierml market
  TIERML_TOKEN      the token for --server
  TIERML_QUIET      1: no hints about next steps, and no progress bars
  TIERML_MAX_UNPACKED
                    the most MiB that a suspicious compressed input may unpack to
  NO_COLOR          set to anything: no colours (https://no-color.org)
  NO_PROGRESS       set to anything: no progress bars, and no progress lines without a terminal
  TERM=dumb         no colours, live view or progress bars

Cloud credentials are found as the providers' own tools find them: AWS_PROFILE, AWS_REGION and ~/.aws,
GOOGLE_APPLICATION_CREDENTIALS and gcloud auth application-default login.`

// arrange sets the places, topics and other tools' words of the commands.
func arrange(root *cobra.Command) {
	help := cli.HelpCommand()
	help.Example = "  tierml help run\n  tierml help prices import\n  tierml help exit-codes"
	root.SetHelpCommand(help)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(help, cli.CompletionCommand("tierml"),
		cli.Topic("environment", "What variables and files it reads", environmentPage),
		cli.Topic("exit-codes", "What the exit code says", exitCodesPage))
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = otherWords[cmd.Name()]
	}
	cli.Arrange(root, groups)
	root.PersistentFlags().BoolP(cli.QuietFlag, "q", false, "no hints about next steps, and no progress bars")
	_ = root.PersistentFlags().SetAnnotation(cli.QuietFlag, settings.SharedSetting, []string{"quiet", "TIERML_QUIET"}) // it exists
}
