//! Draws scenes and charts: shapes of an environment in terminal cells ([`cells`]) and pixels ([`canvas`], [`film`]), charts of
//! numbers as SVG and pixels ([`chart`]), with one set of colours ([`theme`]) and glyphs ([`symbols`]).

#![forbid(unsafe_code)]
#![allow(missing_docs)] // an internal crate: documented only where the name is not enough

pub mod canvas;
pub mod cells;
pub mod chart;
pub mod film;
mod pixels;
pub mod style;
pub mod symbols;
pub mod theme;
