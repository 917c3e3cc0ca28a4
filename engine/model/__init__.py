"""The contracts: every document that crosses a border of rootrank, as typed models.

`docs/contracts.md` explains them; JSON Schemas are generated from here into `events/schemas/`.
"""
