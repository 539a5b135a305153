package run

import (
	"log/slog"
	"os"
	"strings"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/jobmanager"
	"github.com/tierml/tierml/watch/alert"
)

// hookOf returns where a job's alerts go; nil: nowhere.
func hookOf(a config.Alerts) (*alert.Hook, error) {
	if a.URL == "" && a.URLFile == "" {
		return nil, nil
	}
	return alert.NewHook(a.URL, a.URLFile, a.SecretFile)
}

func OpenNotifier(a config.Alerts, log *slog.Logger) (*alert.Notifier, error) {
	hook, err := hookOf(a)
	if hook == nil || err != nil {
		return nil, err
	}
	if list, foreign := os.LookupEnv(jobmanager.AllowVariable); foreign {
		if f := (&config.Foreign{Allow: strings.Split(list, "\n")}); !f.Address(a.URL) {
			return alert.NewPublicNotifier(hook, log), nil
		}
	}
	return alert.NewNotifier(hook, log), nil
}

func startAlerts(run string, notifier *alert.Notifier) *alert.Run {
	if notifier == nil {
		return nil
	}
	return alert.Start(run, notifier)
}
