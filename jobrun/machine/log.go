package machine

import (
	"context"
	"log/slog"

	"github.com/tierml/tierml/internal/clock"
)

// marketLog adds the market time to each line.
type marketLog struct {
	slog.Handler
	mapping clock.Mapping
}

func (h *marketLog) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	r.AddAttrs(slog.Time("market", h.mapping.At(r.Time).UTC()))
	return h.Handler.Handle(ctx, r)
}

func (h *marketLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &marketLog{h.Handler.WithAttrs(attrs), h.mapping}
}

func (h *marketLog) WithGroup(name string) slog.Handler {
	return &marketLog{h.Handler.WithGroup(name), h.mapping}
}
