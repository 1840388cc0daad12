"""The transaction coordinator: the transactions of one partition of `__transaction_state`, without I/O.

`states` has the transitions as data, `transaction` one transaction, `ending` the answers to EndTxn, `markers` the
control records that partition leaders have yet to write, `shard` the turns.
"""
