//! The ring and the table of metrics: one test program, a module for each topic.

#[path = "../fuzz/src/drive.rs"]
mod drive;
mod support;

mod corpus;
mod doc;
mod garbage;
mod golden;
mod loom;
mod processes;
