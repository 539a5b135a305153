// Package wire converts the messages of package tiers to protobuf and back. It is a plain translation, one function per message: it checks
// that a message is complete but does not interpret it.
package wire

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
)

// EncodeCommand returns a command's protobuf form.
func EncodeCommand(c tiers.Command) (*pb.ToNode, error) {
	m := &pb.ToNode{Id: c.ID}
	switch do := c.Do.(type) {
	case tiers.Welcome:
		m.Do = &pb.ToNode_Welcome{Welcome: encodeWelcome(do)}
	case tiers.SetRoute:
		m.Do = &pb.ToNode_SetRoute{SetRoute: &pb.SetRoute{
			Generation: uint64(do.Generation), Route: encodeRoute(do.Route), Peers: encodePeers(do.Peers)}}
	case tiers.Own:
		m.Do = &pb.ToNode_Own{Own: &pb.Own{
			Partitions: numbers[uint32](do.Partitions), Checkpoint: do.Checkpoint, Cut: int64(do.Cut)}}
	case tiers.BackUp:
		m.Do = &pb.ToNode_BackUp{BackUp: &pb.BackUp{
			Partitions: numbers[uint32](do.Partitions), Empty: do.Empty, Checkpoint: do.Checkpoint, Cut: int64(do.Cut)}}
	case tiers.NameCut:
		m.Do = &pb.ToNode_NameCut{NameCut: &pb.NameCut{Cut: int64(do.Cut)}}
	case tiers.UnnameCut:
		m.Do = &pb.ToNode_UnnameCut{UnnameCut: &pb.UnnameCut{Cut: int64(do.Cut)}}
	case tiers.CommitCut:
		m.Do = &pb.ToNode_CommitCut{CommitCut: &pb.CommitCut{Cut: int64(do.Cut)}}
	case tiers.SaveCut:
		m.Do = &pb.ToNode_SaveCut{SaveCut: &pb.SaveCut{
			Cut: int64(do.Cut), Partitions: numbers[uint32](do.Partitions), Place: do.Place, Folder: do.Folder}}
	case tiers.TakeStock:
		m.Do = &pb.ToNode_TakeStock{TakeStock: &pb.TakeStock{}}
	case tiers.MoveOut:
		m.Do = &pb.ToNode_MoveOut{MoveOut: &pb.MoveOut{
			Partition: uint32(do.Partition), To: string(do.To), Address: do.Address, Window: do.Window, FaultIn: do.FaultIn}}
	case tiers.HurryMoves:
		m.Do = &pb.ToNode_HurryMoves{HurryMoves: &pb.HurryMoves{}}
	case tiers.Promote:
		m.Do = &pb.ToNode_Promote{Promote: &pb.Promote{
			Cut: int64(do.Cut), Partitions: numbers[uint32](do.Partitions)}}
	case tiers.FenceWorker:
		m.Do = &pb.ToNode_FenceWorker{FenceWorker: &pb.FenceWorker{Incarnation: uint64(do.Incarnation)}}
	case tiers.SettleWorker:
		m.Do = &pb.ToNode_SettleWorker{SettleWorker: &pb.SettleWorker{
			Incarnation: uint64(do.Incarnation), Sequence: do.Sequence, Commit: do.Commit}}
	case tiers.FenceGeneration:
		m.Do = &pb.ToNode_FenceGeneration{FenceGeneration: &pb.FenceGeneration{Generation: uint64(do.Generation)}}
	case tiers.Recover:
		m.Do = &pb.ToNode_Recover{Recover: &pb.Recover{
			Generation: uint64(do.Generation), Cut: int64(do.Cut), Route: encodeRoute(do.Route),
			Peers: encodePeers(do.Peers), Splits: numbers[uint32](do.Splits), Checkpoint: do.Checkpoint, Initial: do.Initial}}
	case tiers.Load:
		m.Do = &pb.ToNode_Load{Load: &pb.Load{Splits: numbers[uint32](do.Splits)}}
	case tiers.Assign:
		m.Do = &pb.ToNode_Assign{Assign: &pb.Assign{Splits: each(do.Splits, encodeSplitAt)}}
	case tiers.Release:
		m.Do = &pb.ToNode_Release{Release: &pb.Release{Splits: numbers[uint32](do.Splits), Drop: do.Drop}}
	case tiers.Park:
		m.Do = &pb.ToNode_Park{Park: &pb.Park{}}
	case tiers.Unpark:
		m.Do = &pb.ToNode_Unpark{Unpark: &pb.Unpark{Until: int64(do.Until)}}
	case tiers.RunProgram:
		m.Do = &pb.ToNode_RunProgram{RunProgram: encodeRun(do)}
	case tiers.SaveProgram:
		m.Do = &pb.ToNode_SaveProgram{SaveProgram: &pb.SaveProgram{Attempt: do.Attempt, Round: do.Round}}
	case tiers.SetPeers:
		m.Do = &pb.ToNode_SetPeers{SetPeers: &pb.SetPeers{Attempt: do.Attempt, Peers: do.Peers}}
	case tiers.StopProgram:
		m.Do = &pb.ToNode_StopProgram{StopProgram: &pb.StopProgram{Attempt: do.Attempt, Grace: durationpb.New(do.Grace), Save: do.Save}}
	case tiers.Stop:
		m.Do = &pb.ToNode_Stop{Stop: &pb.Stop{Why: do.Why, Again: do.Again}}
	default:
		return nil, fmt.Errorf("command %d: no protobuf form for %T", c.ID, c.Do)
	}
	return m, nil
}

// DecodeCommand decodes the result of EncodeCommand.
func DecodeCommand(m *pb.ToNode) (tiers.Command, error) {
	c := tiers.Command{ID: m.GetId()}
	switch do := m.GetDo().(type) {
	case *pb.ToNode_Welcome:
		c.Do = decodeWelcome(do.Welcome)
	case *pb.ToNode_SetRoute:
		c.Do = tiers.SetRoute{Generation: ps.Generation(do.SetRoute.GetGeneration()),
			Route: decodeRoute(do.SetRoute.GetRoute()), Peers: decodePeers(do.SetRoute.GetPeers())}
	case *pb.ToNode_Own:
		c.Do = tiers.Own{Partitions: numbers[ps.Partition](do.Own.GetPartitions()),
			Checkpoint: do.Own.GetCheckpoint(), Cut: ps.Clock(do.Own.GetCut())}
	case *pb.ToNode_BackUp:
		c.Do = tiers.BackUp{Partitions: numbers[ps.Partition](do.BackUp.GetPartitions()), Empty: do.BackUp.GetEmpty(),
			Checkpoint: do.BackUp.GetCheckpoint(), Cut: ps.Clock(do.BackUp.GetCut())}
	case *pb.ToNode_NameCut:
		c.Do = tiers.NameCut{Cut: ps.Clock(do.NameCut.GetCut())}
	case *pb.ToNode_UnnameCut:
		c.Do = tiers.UnnameCut{Cut: ps.Clock(do.UnnameCut.GetCut())}
	case *pb.ToNode_CommitCut:
		c.Do = tiers.CommitCut{Cut: ps.Clock(do.CommitCut.GetCut())}
	case *pb.ToNode_SaveCut:
		c.Do = tiers.SaveCut{Cut: ps.Clock(do.SaveCut.GetCut()), Partitions: numbers[ps.Partition](do.SaveCut.GetPartitions()),
			Place: do.SaveCut.GetPlace(), Folder: do.SaveCut.GetFolder()}
	case *pb.ToNode_TakeStock:
		c.Do = tiers.TakeStock{}
	case *pb.ToNode_MoveOut:
		c.Do = tiers.MoveOut{Partition: ps.Partition(do.MoveOut.GetPartition()),
			To: ps.ServerID(do.MoveOut.GetTo()), Address: do.MoveOut.GetAddress(), Window: do.MoveOut.GetWindow(), FaultIn: do.MoveOut.GetFaultIn()}
	case *pb.ToNode_HurryMoves:
		c.Do = tiers.HurryMoves{}
	case *pb.ToNode_Promote:
		c.Do = tiers.Promote{Cut: ps.Clock(do.Promote.GetCut()),
			Partitions: numbers[ps.Partition](do.Promote.GetPartitions())}
	case *pb.ToNode_FenceWorker:
		c.Do = tiers.FenceWorker{Incarnation: ps.Incarnation(do.FenceWorker.GetIncarnation())}
	case *pb.ToNode_SettleWorker:
		c.Do = tiers.SettleWorker{Incarnation: ps.Incarnation(do.SettleWorker.GetIncarnation()),
			Sequence: do.SettleWorker.GetSequence(), Commit: do.SettleWorker.GetCommit()}
	case *pb.ToNode_FenceGeneration:
		c.Do = tiers.FenceGeneration{Generation: ps.Generation(do.FenceGeneration.GetGeneration())}
	case *pb.ToNode_Recover:
		c.Do = tiers.Recover{Generation: ps.Generation(do.Recover.GetGeneration()), Cut: ps.Clock(do.Recover.GetCut()),
			Route: decodeRoute(do.Recover.GetRoute()), Peers: decodePeers(do.Recover.GetPeers()),
			Splits:     numbers[ps.Split](do.Recover.GetSplits()),
			Checkpoint: do.Recover.GetCheckpoint(), Initial: do.Recover.GetInitial()}
	case *pb.ToNode_Load:
		c.Do = tiers.Load{Splits: numbers[ps.Split](do.Load.GetSplits())}
	case *pb.ToNode_Assign:
		c.Do = tiers.Assign{Splits: each(do.Assign.GetSplits(), decodeSplitAt)}
	case *pb.ToNode_Release:
		c.Do = tiers.Release{Splits: numbers[ps.Split](do.Release.GetSplits()), Drop: do.Release.GetDrop()}
	case *pb.ToNode_Park:
		c.Do = tiers.Park{}
	case *pb.ToNode_Unpark:
		c.Do = tiers.Unpark{Until: ps.Clock(do.Unpark.GetUntil())}
	case *pb.ToNode_RunProgram:
		c.Do = decodeRun(do.RunProgram)
	case *pb.ToNode_SaveProgram:
		c.Do = tiers.SaveProgram{Attempt: do.SaveProgram.GetAttempt(), Round: do.SaveProgram.GetRound()}
	case *pb.ToNode_SetPeers:
		c.Do = tiers.SetPeers{Attempt: do.SetPeers.GetAttempt(), Peers: do.SetPeers.GetPeers()}
	case *pb.ToNode_StopProgram:
		c.Do = tiers.StopProgram{Attempt: do.StopProgram.GetAttempt(), Grace: do.StopProgram.GetGrace().AsDuration(),
			Save: do.StopProgram.GetSave()}
	case *pb.ToNode_Stop:
		c.Do = tiers.Stop{Why: do.Stop.GetWhy(), Again: do.Stop.GetAgain()}
	default:
		return tiers.Command{}, fmt.Errorf("command %d is of a kind that this program does not know; is the controller newer?", c.ID)
	}
	return c, nil
}

func encodeWelcome(w tiers.Welcome) *pb.Welcome {
	return &pb.Welcome{
		Schema:      encodeSchema(w.Schema),
		Generation:  uint64(w.Generation),
		Incarnation: uint64(w.Incarnation),
		App:         w.App,
		Params:      w.Params,
		Dataset:     w.Dataset,
		Secrets:     w.Secrets,
		SplitsUrl:   w.SplitsURL,
		EvalEvery:   int64(w.EvalEvery),
		Until:       int64(w.Until),
		Heartbeat:   durationpb.New(w.Heartbeat),
		OrphanAfter: durationpb.New(w.OrphanAfter),
	}
}

func decodeWelcome(m *pb.Welcome) tiers.Welcome {
	return tiers.Welcome{
		Schema:      decodeSchema(m.GetSchema()),
		Generation:  ps.Generation(m.GetGeneration()),
		Incarnation: ps.Incarnation(m.GetIncarnation()),
		App:         m.GetApp(),
		Params:      m.GetParams(),
		Dataset:     m.GetDataset(),
		Secrets:     m.GetSecrets(),
		SplitsURL:   m.GetSplitsUrl(),
		EvalEvery:   ps.Clock(m.GetEvalEvery()),
		Until:       ps.Clock(m.GetUntil()),
		Heartbeat:   m.GetHeartbeat().AsDuration(),
		OrphanAfter: m.GetOrphanAfter().AsDuration(),
	}
}

func encodeSchema(s ps.Schema) *pb.Schema {
	m := &pb.Schema{
		Partitions:    int64(s.Partitions),
		Splits:        int64(s.Splits),
		Staleness:     int64(s.Staleness),
		Seed:          s.Seed,
		Deterministic: s.Deterministic,
	}
	for _, t := range s.Tables {
		m.Tables = append(m.Tables, &pb.Table{
			Name: t.Name, Rows: t.Rows, Cols: int64(t.Cols), InitLow: t.Init.Low, InitHigh: t.Init.High,
			Kind: uint32(t.Kind), Sparse: t.Sparse, Ranged: t.Ranged, Rule: encodeRule(t.Rule)})
	}
	return m
}

func decodeSchema(m *pb.Schema) ps.Schema {
	s := ps.Schema{
		Partitions:    int(m.GetPartitions()),
		Splits:        int(m.GetSplits()),
		Staleness:     ps.Clock(m.GetStaleness()),
		Seed:          m.GetSeed(),
		Deterministic: m.GetDeterministic(),
	}
	for _, t := range m.GetTables() {
		s.Tables = append(s.Tables, ps.Table{
			Name: t.GetName(), Kind: ps.Kind(t.GetKind()), Rows: t.GetRows(), Cols: int(t.GetCols()),
			Init:   ps.Init{Low: t.GetInitLow(), High: t.GetInitHigh()},
			Sparse: t.GetSparse(), Ranged: t.GetRanged(), Rule: decodeRule(t.GetRule())})
	}
	return s
}

func encodeRule(r ps.Rule) *pb.Rule {
	if r == (ps.Rule{}) {
		return nil
	}
	return &pb.Rule{Name: string(r.Name), Rate: r.Rate, Momentum: r.Momentum, Nesterov: r.Nesterov,
		Beta1: r.Beta1, Beta2: r.Beta2, Epsilon: r.Epsilon, L1: r.L1, L2: r.L2}
}

func decodeRule(m *pb.Rule) ps.Rule {
	return ps.Rule{Name: ps.RuleName(m.GetName()), Rate: m.GetRate(), Momentum: m.GetMomentum(), Nesterov: m.GetNesterov(),
		Beta1: m.GetBeta1(), Beta2: m.GetBeta2(), Epsilon: m.GetEpsilon(), L1: m.GetL1(), L2: m.GetL2()}
}

func encodeRoute(r ps.Route) *pb.Route {
	return &pb.Route{Version: r.Version, Owner: names[string](r.Owner), Backup: names[string](r.Backup)}
}

func decodeRoute(m *pb.Route) ps.Route {
	return ps.Route{Version: m.GetVersion(), Owner: names[ps.ServerID](m.GetOwner()), Backup: names[ps.ServerID](m.GetBackup())}
}

func encodePeers(peers map[ps.ServerID]string) map[string]string {
	m := make(map[string]string, len(peers))
	for id, address := range peers {
		m[string(id)] = address
	}
	return m
}

func decodePeers(m map[string]string) map[ps.ServerID]string {
	peers := make(map[ps.ServerID]string, len(m))
	for id, address := range m {
		peers[ps.ServerID(id)] = address
	}
	return peers
}

func encodeSplitAt(s tiers.SplitAt) *pb.SplitAt {
	return &pb.SplitAt{Split: uint32(s.Split), Clock: int64(s.Clock)}
}

func decodeSplitAt(m *pb.SplitAt) tiers.SplitAt {
	return tiers.SplitAt{Split: ps.Split(m.GetSplit()), Clock: ps.Clock(m.GetClock())}
}

// each translates a list.
func each[From, To any](list []From, f func(From) To) []To {
	out := slices.Grow([]To(nil), len(list))
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

// numbers translates a list of numbers between types of the same size.
func numbers[To, From ~uint32 | ~int64](list []From) []To {
	return each(list, func(v From) To { return To(v) })
}

// names translates a list of names.
func names[To, From ~string](list []From) []To {
	return each(list, func(v From) To { return To(v) })
}
