"""What people look at: the report of a run as values and as a page, and pictures of clusterings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robusttc._lazy import attach

if TYPE_CHECKING:
    from robusttc.report.document import ReportDocument, make_document, write_csv
    from robusttc.report.page import REPORT, WrittenReport, make_page, write_report
    from robusttc.report.plots import check_format, draw_heatmap

__all__ = [
    "REPORT",
    "ReportDocument",
    "WrittenReport",
    "check_format",
    "draw_heatmap",
    "make_document",
    "make_page",
    "write_csv",
    "write_report",
]

__getattr__ = attach(
    __name__,
    {
        "document": ("ReportDocument", "make_document", "write_csv"),
        "page": ("REPORT", "WrittenReport", "make_page", "write_report"),
        "plots": ("check_format", "draw_heatmap"),
    },
)
