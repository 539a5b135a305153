package market

// USD is an amount in billionths of a dollar, so that ledgers add exactly. It marshals as a decimal
// string such as "0.239".
type USD int64

// Dollar is one US dollar.
const Dollar USD = 1_000_000_000
