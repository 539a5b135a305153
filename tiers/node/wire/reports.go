package wire

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
)

// EncodeReport returns a report's protobuf form.
func EncodeReport(r tiers.Report) (*pb.FromNode, error) {
	m := &pb.FromNode{}
	switch r := r.(type) {
	case tiers.Hello:
		m.Report = &pb.FromNode_Hello{Hello: &pb.Hello{
			Token: r.Token, Instance: string(r.Instance), Address: r.Address, Type: r.Type, Vcpu: int64(r.VCPU),
			Incarnation: uint64(r.Incarnation), Generation: uint64(r.Generation)}}
	case tiers.Answer:
		answer, err := encodeAnswer(r)
		if err != nil {
			return nil, err
		}
		m.Report = &pb.FromNode_Answer{Answer: answer}
	case tiers.Heartbeat:
		m.Report = &pb.FromNode_Heartbeat{Heartbeat: &pb.Heartbeat{
			Folded: int64(r.Folded), Owned: int64(r.Owned), CutBytes: r.CutBytes,
			BytesIn: r.BytesIn, BytesOut: r.BytesOut, BytesSaved: r.BytesSaved, Waited: r.Waited, Generation: uint64(r.Generation),
			Serving: each(r.Serving, encodeServing)}}
	case tiers.Progress:
		m.Report = &pb.FromNode_Progress{Progress: &pb.Progress{
			Generation: uint64(r.Generation), Clock: int64(r.Clock), Splits: each(r.Splits, encodeSplitStats), Seconds: r.Seconds}}
	case tiers.CutHeld:
		m.Report = &pb.FromNode_CutHeld{CutHeld: &pb.CutHeld{Cut: int64(r.Cut), Bytes: r.Bytes, Seconds: r.Seconds}}
	case tiers.Warned:
		m.Report = &pb.FromNode_Warned{Warned: &pb.Warned{
			Rebalance: r.Rebalance, Deadline: timestamppb.New(r.Deadline)}}
	case tiers.Failed:
		m.Report = &pb.FromNode_Failed{Failed: &pb.Failed{Error: strings.ToValidUTF8(r.Error, "?")}}
	case tiers.Crashed:
		// An application's panic may hold any bytes, but protobuf accepts only UTF-8.
		m.Report = &pb.FromNode_Crashed{Crashed: &pb.Crashed{Error: strings.ToValidUTF8(r.Error, "?"), Log: strings.ToValidUTF8(r.Log, "?")}}
	case tiers.Used:
		m.Report = &pb.FromNode_Used{Used: &pb.Used{Seconds: r.Seconds, Cpu: r.CPU, Memory: r.Memory, Gpu: r.GPU, GpuMemory: r.GPUMemory,
			BytesIn: r.BytesIn, BytesOut: r.BytesOut}}
	case tiers.ProgramStarted, tiers.ProgramAdvanced, tiers.ProgramSaved, tiers.ProgramSaveFailed, tiers.ProgramExited:
		encodeProgram(m, r)
	default:
		return nil, fmt.Errorf("no protobuf form for report %T", r)
	}
	return m, nil
}

// DecodeReport decodes the result of EncodeReport.
func DecodeReport(m *pb.FromNode) (tiers.Report, error) {
	switch r := m.GetReport().(type) {
	case *pb.FromNode_Hello:
		h := r.Hello
		return tiers.Hello{
			Token: h.GetToken(), Instance: ps.ServerID(h.GetInstance()), Address: h.GetAddress(),
			Type: h.GetType(), VCPU: int(h.GetVcpu()),
			Incarnation: ps.Incarnation(h.GetIncarnation()), Generation: ps.Generation(h.GetGeneration())}, nil
	case *pb.FromNode_Answer:
		return decodeAnswer(r.Answer), nil
	case *pb.FromNode_Heartbeat:
		h := r.Heartbeat
		return tiers.Heartbeat{
			Folded: ps.Clock(h.GetFolded()), Owned: int(h.GetOwned()), CutBytes: h.GetCutBytes(),
			BytesIn: h.GetBytesIn(), BytesOut: h.GetBytesOut(), BytesSaved: h.GetBytesSaved(), Waited: h.GetWaited(), Generation: ps.Generation(h.GetGeneration()),
			Serving: each(h.GetServing(), decodeServing)}, nil
	case *pb.FromNode_Progress:
		return tiers.Progress{Generation: ps.Generation(r.Progress.GetGeneration()), Clock: ps.Clock(r.Progress.GetClock()),
			Splits: each(r.Progress.GetSplits(), decodeSplitStats), Seconds: r.Progress.GetSeconds()}, nil
	case *pb.FromNode_CutHeld:
		return tiers.CutHeld{Cut: ps.Clock(r.CutHeld.GetCut()), Bytes: r.CutHeld.GetBytes(),
			Seconds: r.CutHeld.GetSeconds()}, nil
	case *pb.FromNode_Warned:
		return tiers.Warned{Rebalance: r.Warned.GetRebalance(), Deadline: r.Warned.GetDeadline().AsTime()}, nil
	case *pb.FromNode_Failed:
		return tiers.Failed{Error: r.Failed.GetError()}, nil
	case *pb.FromNode_Used:
		u := r.Used
		return tiers.Used{Seconds: u.GetSeconds(), CPU: u.GetCpu(), Memory: u.GetMemory(), GPU: u.GetGpu(), GPUMemory: u.GetGpuMemory(),
			BytesIn: u.GetBytesIn(), BytesOut: u.GetBytesOut()}, nil
	case *pb.FromNode_Crashed:
		return tiers.Crashed{Error: r.Crashed.GetError(), Log: r.Crashed.GetLog()}, nil
	}
	if r := decodeProgram(m); r != nil {
		return r, nil
	}
	return nil, errors.New("report is of a kind that this program does not know; is the node newer?")
}

func encodeAnswer(a tiers.Answer) (*pb.Answer, error) {
	m := &pb.Answer{Id: a.ID, Code: string(a.Code), Error: a.Error}
	switch result := a.Result.(type) {
	case nil:
	case tiers.Released:
		m.Result = &pb.Answer_Released{Released: &pb.Released{Splits: each(result.Splits, encodeSplitAt)}}
	case tiers.Parked:
		m.Result = &pb.Answer_Parked{Parked: &pb.Parked{Begun: int64(result.Begun)}}
	case tiers.Standings:
		m.Result = &pb.Answer_Standings{Standings: &pb.Standings{Partitions: each(result.Partitions, encodeStanding)}}
	case tiers.Holdings:
		m.Result = &pb.Answer_Holdings{Holdings: &pb.Holdings{
			Owned: numbers[uint32](result.Owned), Undo: int64(result.Undo),
			Backups: each(result.Backups, encodeBackupHolding)}}
	case tiers.Saved:
		m.Result = &pb.Answer_Saved{Saved: &pb.Saved{Parts: each(result.Parts, encodeSavedPart)}}
	case tiers.Moved:
		m.Result = &pb.Answer_Moved{Moved: &pb.Moved{Bytes: result.Bytes, Seconds: result.Seconds, Waited: result.Waited}}
	case tiers.Stock:
		m.Result = &pb.Answer_Stock{Stock: &pb.Stock{
			Generation: uint64(result.Generation), Suspended: result.Suspended, Version: result.Version, Named: int64(result.Named),
			Owned: each(result.Owned, encodeOwned), Backups: each(result.Backups, encodeBackupHolding),
			Splits: each(result.Splits, encodeSplitAt), Loaded: numbers[uint32](result.Loaded)}}
	default:
		return nil, fmt.Errorf("no protobuf form for result %T", result)
	}
	return m, nil
}

func decodeAnswer(m *pb.Answer) tiers.Answer {
	a := tiers.Answer{ID: m.GetId(), Code: tiers.Code(m.GetCode()), Error: m.GetError()}
	switch result := m.GetResult().(type) {
	case *pb.Answer_Released:
		a.Result = tiers.Released{Splits: each(result.Released.GetSplits(), decodeSplitAt)}
	case *pb.Answer_Parked:
		a.Result = tiers.Parked{Begun: ps.Clock(result.Parked.GetBegun())}
	case *pb.Answer_Standings:
		a.Result = tiers.Standings{Partitions: each(result.Standings.GetPartitions(), decodeStanding)}
	case *pb.Answer_Holdings:
		a.Result = tiers.Holdings{
			Owned: numbers[ps.Partition](result.Holdings.GetOwned()), Undo: ps.Clock(result.Holdings.GetUndo()),
			Backups: each(result.Holdings.GetBackups(), decodeBackupHolding)}
	case *pb.Answer_Saved:
		a.Result = tiers.Saved{Parts: each(result.Saved.GetParts(), decodeSavedPart)}
	case *pb.Answer_Moved:
		a.Result = tiers.Moved{Bytes: result.Moved.GetBytes(), Seconds: result.Moved.GetSeconds(), Waited: result.Moved.GetWaited()}
	case *pb.Answer_Stock:
		s := result.Stock
		a.Result = tiers.Stock{
			Generation: ps.Generation(s.GetGeneration()), Suspended: s.GetSuspended(), Version: s.GetVersion(),
			Named: ps.Clock(s.GetNamed()), Owned: each(s.GetOwned(), decodeOwned), Backups: each(s.GetBackups(), decodeBackupHolding),
			Splits: each(s.GetSplits(), decodeSplitAt), Loaded: numbers[ps.Split](s.GetLoaded())}
	}
	return a
}

func encodeStanding(s tiers.Standing) *pb.Standing {
	return &pb.Standing{Partition: uint32(s.Partition), Committed: s.Standing.Committed, Staged: s.Standing.Staged,
		Marks: numbers[int64](s.Marks)}
}

func decodeStanding(m *pb.Standing) tiers.Standing {
	return tiers.Standing{Partition: ps.Partition(m.GetPartition()),
		Standing: ps.Standing{Committed: m.GetCommitted(), Staged: m.GetStaged()},
		Marks:    numbers[ps.Clock](m.GetMarks())}
}

func encodeBackupHolding(h tiers.BackupHolding) *pb.BackupHolding {
	return &pb.BackupHolding{Partition: uint32(h.Partition), Cut: int64(h.Cut), Delivered: int64(h.Delivered)}
}

func decodeBackupHolding(m *pb.BackupHolding) tiers.BackupHolding {
	return tiers.BackupHolding{Partition: ps.Partition(m.GetPartition()), Cut: ps.Clock(m.GetCut()),
		Delivered: ps.Clock(m.GetDelivered())}
}

func encodeSplitStats(s tiers.SplitStats) *pb.SplitStats {
	return &pb.SplitStats{Split: uint32(s.Split), Examples: s.Examples, Loss: s.Loss,
		TestCount: s.TestCount, TestLoss: s.TestLoss, Work: s.Work}
}

func encodeServing(s ps.Serving) *pb.Serving {
	return &pb.Serving{Partition: uint32(s.Partition), Nanos: int64(s.Took), Clocks: s.Clocks}
}

func decodeServing(m *pb.Serving) ps.Serving {
	return ps.Serving{Partition: ps.Partition(m.GetPartition()), Took: time.Duration(m.GetNanos()), Clocks: m.GetClocks()}
}

func decodeSplitStats(m *pb.SplitStats) tiers.SplitStats {
	return tiers.SplitStats{Split: ps.Split(m.GetSplit()), Examples: m.GetExamples(), Loss: m.GetLoss(),
		TestCount: m.GetTestCount(), TestLoss: m.GetTestLoss(), Work: m.GetWork()}
}

func encodeSavedPart(p tiers.SavedPart) *pb.SavedPart {
	return &pb.SavedPart{Partition: uint32(p.Partition), Object: p.Object, Offset: p.Offset, Bytes: p.Bytes, Sha256: p.SHA256}
}

func decodeSavedPart(m *pb.SavedPart) tiers.SavedPart {
	return tiers.SavedPart{Partition: ps.Partition(m.GetPartition()), Object: m.GetObject(), Offset: m.GetOffset(),
		Bytes: m.GetBytes(), SHA256: m.GetSha256()}
}

func encodeOwned(o tiers.OwnedPartition) *pb.OwnedPartition {
	return &pb.OwnedPartition{Partition: uint32(o.Partition), Base: int64(o.Base), Folded: int64(o.Folded), Marks: numbers[int64](o.Marks)}
}

func decodeOwned(m *pb.OwnedPartition) tiers.OwnedPartition {
	return tiers.OwnedPartition{Partition: ps.Partition(m.GetPartition()), Base: ps.Clock(m.GetBase()),
		Folded: ps.Clock(m.GetFolded()), Marks: numbers[ps.Clock](m.GetMarks())}
}
